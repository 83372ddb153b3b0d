"""PyTorch's operators that TVM's importer lacks, or takes for something else: how they are converted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax

from workers.tvm_backend.frontends import sizes
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported
from workers.tvm_backend.frontends.torch import (
    gamma,
    index_put,
    matrices,
    order,
    polynomials,
    pools,
    products,
    quantized,
    reductions,
    resize,
)


def converters() -> Mapping[str, resize.Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {
        **resize.converters(),
        **quantized.converters(),
        **gamma.converters(),
        **matrices.converters(),
        **order.converters(),
        **polynomials.converters(),
        **pools.converters(),
        **products.converters(),
        **reductions.converters(),
        "unfold.default": _windows,
        "select.int": _selected,
        "as_strided.default": _strided,
        "clamp.Tensor": _bounded,
        "scatter.value": _written,
        **dict.fromkeys(("bitwise_left_shift.Tensor", "__lshift__.Tensor"), _shifted(relax.op.left_shift)),
        **dict.fromkeys(("bitwise_right_shift.Tensor", "__rshift__.Tensor"), _shifted(relax.op.right_shift)),
        "scatter_reduce.two": _scatter_reduced,
        "_cdist_forward.default": _distances,
        "index_put.default": index_put.put,
        "_embedding_bag_forward_only.default": _bags,
        "_embedding_bag.default": _bags,
    }


def _windows(node: Any, importer: Any) -> relax.Var:
    """Windows that slide along an axis, their elements along a new last one."""
    (x, axis, size, step), emit = node.args, importer.block_builder.emit
    data = importer.env[x]
    rank = data.ty.ndim
    axis %= rank
    starts = np.arange(0, fixed_extents(str(node.target), data)[axis] - size + 1, step)
    sizes.Unfolding().add("the places of windows", [len(starts), size], 64, 0)
    found = emit(relax.op.take(data, relax.const(starts[:, None] + np.arange(size), "int64"), axis))
    order = [at for at in range(rank + 1) if at != axis + 1]
    return emit(relax.op.permute_dims(found, [*order, axis + 1]))


def _selected(node: Any, importer: Any) -> relax.Var:
    """One place of an axis, counted from behind below 0."""
    x, axis, at = node.args
    x, emit = importer.env[x], importer.block_builder.emit
    axis %= x.ty.ndim
    at = int(at)
    at += fixed_extents(str(node.target), x)[axis] if at < 0 else 0
    return emit(relax.op.squeeze(emit(relax.op.strided_slice(x, [axis], [at], [at + 1])), [axis]))


def _strided(node: Any, importer: Any) -> relax.Var:
    """Elements at steps of their own through a tensor's elements in order."""
    x, size, steps, *rest = node.args
    meta, x, emit = x.meta["val"], importer.env[x], importer.block_builder.emit
    first = rest[0] if rest and rest[0] is not None else 0
    places = np.full([1] * len(size), first, "int64")
    for axis, (extent, step) in enumerate(zip(size, steps, strict=True)):
        places = places + (np.arange(extent) * step).reshape([-1 if each == axis else 1 for each in range(len(size))])
    if not meta.is_contiguous() or places.max(initial=0) >= meta.numel():
        raise unsupported(str(node.target), "elements that do not lie in order")
    sizes.Unfolding().add("the places of elements", list(places.shape), 64, 0)
    return emit(relax.op.take(emit(relax.op.reshape(x, [-1])), relax.const(places, "int64"), 0))


def _bounded(node: Any, importer: Any) -> relax.Var:
    """Bounds for each element; the upper one wins."""
    x, low, high = [*node.args, None, None][:3]
    emit, found, kind = importer.block_builder.emit, importer.env[x], str(node.meta["val"].dtype).removeprefix("torch.")
    for bound, op in ((low, relax.op.maximum), (high, relax.op.minimum)):
        if bound is not None:
            found = emit(op(*(emit(relax.op.astype(each, kind)) for each in (found, importer.env[bound]))))
    return found


def _written(node: Any, importer: Any) -> relax.Var:
    """One number at all indices."""
    x, axis, index, value = node.args
    x, index, emit = importer.env[x], importer.env[index], importer.block_builder.emit
    values = emit(relax.op.broadcast_to(relax.const(value, str(x.ty.dtype)), index.ty.shape))
    return emit(relax.op.scatter_elements(x, index, values, axis=axis))


def _shifted(op: Callable[..., relax.Expr]) -> resize.Convert:
    """By as many bits as there are, or by less than none: all are lost to the left, all but the sign to the right."""

    def convert(node: Any, importer: Any) -> relax.Var:
        emit, (x, count) = importer.block_builder.emit, map(importer.env.__getitem__, node.args)
        kind = str(node.meta["val"].dtype).removeprefix("torch.")
        x, count = (emit(relax.op.astype(each, kind)) for each in (x, count))
        most = node.meta["val"].dtype.itemsize * 8 - 1
        outside = emit(
            relax.op.logical_or(
                emit(relax.op.less(count, relax.const(0, kind))), emit(relax.op.greater(count, relax.const(most, kind)))
            )
        )
        left = op is relax.op.left_shift
        safe = emit(relax.op.where(outside, relax.const(0 if left else most, kind), count))
        found = emit(op(x, safe))
        return emit(relax.op.where(outside, relax.const(0, kind), found)) if left else found

    return convert


REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scatter_reduced(node: Any, importer: Any) -> relax.Var:
    """Values at indices, reduced with what is there; values beyond the indices are left out."""
    x, axis, index, values, how = node.args[:5]
    x, index, values, emit = importer.env[x], importer.env[index], importer.env[values], importer.block_builder.emit
    wanted = fixed_extents(str(node.target), index)
    if fixed_extents(str(node.target), values) != wanted:
        values = emit(relax.op.strided_slice(values, list(range(len(wanted))), [0] * len(wanted), wanted))
    return emit(relax.op.scatter_elements(x, index, values, axis=axis, reduction=REDUCTIONS[how]))


def _distances(node: Any, importer: Any) -> relax.Var:
    """Distances of each row of one matrix to each of another, by the norm p."""
    emit, power = importer.block_builder.emit, float(node.args[2])
    one, other = (importer.env[arg] for arg in node.args[:2])
    apart = emit(
        relax.op.abs(
            emit(relax.op.subtract(emit(relax.op.expand_dims(one, -2)), emit(relax.op.expand_dims(other, -3))))
        )
    )
    if math.isinf(power):
        return emit(relax.op.max(apart, [-1]))
    if power == 2.0:
        return emit(relax.op.sqrt(emit(relax.op.sum(emit(relax.op.multiply(apart, apart)), [-1]))))
    if power == 1.0:
        return emit(relax.op.sum(apart, [-1]))
    if power == 0.0:
        moved = emit(relax.op.not_equal(apart, relax.const(0.0, str(apart.ty.dtype))))
        return emit(relax.op.sum(emit(relax.op.astype(moved, str(apart.ty.dtype))), [-1]))
    raised = emit(relax.op.power(apart, relax.const(power, str(apart.ty.dtype))))
    total = emit(relax.op.sum(raised, [-1]))
    return emit(relax.op.power(total, relax.const(1 / power, str(apart.ty.dtype))))


SUM, MEAN = 0, 1
BAGS: list[Any] = [None, None, None, False, SUM, False, None, False, -1]
"""What arguments of a sum of rows are where they are left out."""


def _bags(node: Any, importer: Any) -> relax.Var:
    """Sums or means of rows that lie one behind another: a product with ones where a row is in a bag.

    PyTorch's other results, which a gradient needs, are not computed.
    """
    given = list(node.args)
    weight, indices, offsets, _, mode, _, factors, last, padding = given + BAGS[len(given) :]
    if mode not in (SUM, MEAN):
        raise unsupported(str(node.target), "maxima")
    emit, env = importer.block_builder.emit, importer.env
    fixed_extents(str(node.target), env[indices]), fixed_extents(str(node.target), env[offsets])
    inside = _members(emit, env[indices], env[offsets], bool(last), padding)
    share = emit(relax.op.astype(inside, str(env[weight].ty.dtype)))
    rows = emit(relax.op.take(env[weight], env[indices], 0))
    if factors is not None:
        rows = emit(relax.op.multiply(rows, emit(relax.op.expand_dims(env[factors], 1))))
    found = emit(relax.op.matmul(share, rows))
    if mode == MEAN:
        count = emit(relax.op.sum(share, [1], keepdims=True))
        found = emit(relax.op.divide(found, emit(relax.op.maximum(count, relax.const(1.0, str(share.ty.dtype))))))
    return emit(relax.Tuple([found] * 4))


def _members(
    emit: Callable[[relax.Expr], relax.Var], indices: relax.Expr, offsets: relax.Expr, last: bool, padding: int
) -> relax.Expr:
    """Which places belong to which bag: bool [bags, places].

    Args:
        offsets: first place of each bag, and with ``last`` the end of the last bag.
        padding: index that counts for nothing; -1 for none.
    """
    count, kind = int(indices.ty.shape[0]), str(offsets.ty.dtype)
    if not last:
        offsets = emit(relax.op.concat([offsets, relax.const(np.array([count]), kind)], 0))
    bags = int(offsets.ty.shape[0]) - 1
    begins, ends = (
        emit(relax.op.expand_dims(emit(relax.op.strided_slice(offsets, [0], [at], [at + bags])), 1)) for at in (0, 1)
    )
    places = relax.const(np.arange(count)[None], kind)
    inside = emit(relax.op.logical_and(emit(relax.op.greater_equal(places, begins)), emit(relax.op.less(places, ends))))
    if padding >= 0:
        counts = emit(relax.op.not_equal(indices, relax.const(padding, str(indices.ty.dtype))))
        inside = emit(relax.op.logical_and(inside, counts))
    return inside
