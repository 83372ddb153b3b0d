"""PyTorch's operators that TVM's importer lacks, or takes for something else: how they are converted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax

from workers.tvm_backend.frontends import sizes
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported
from workers.tvm_backend.frontends.torch import index_put, quantized, resize


def converters() -> Mapping[str, resize.Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {
        **resize.converters(),
        **quantized.converters(),
        "amax.default": _reduced(relax.op.max),
        "amin.default": _reduced(relax.op.min),
        "prod.dim_int": _reduced(relax.op.prod),
        "convolution.default": _convolution,
        "adaptive_max_pool2d.default": _adaptive_max,
        "adaptive_max_pool3d.default": _adaptive_max,
        "unfold.default": _windows,
        "var_mean.correction": _variance,
        "_cdist_forward.default": _distances,
        "index_put.default": index_put.put,
        "_embedding_bag_forward_only.default": _bags,
        "_embedding_bag.default": _bags,
    }


def _convolution(node: Any, importer: Any) -> relax.Var:
    """Transposed ones of three dimensions are TVM's, but not its importer's."""
    x, weight, bias, strides, padding, dilation, transposed, more, groups = node.args
    if not transposed or importer.env[x].ty.ndim != 5:
        return importer._convolution(node)
    emit = importer.block_builder.emit
    made = emit(
        relax.op.nn.conv3d_transpose(
            importer.env[x], importer.env[weight], strides, padding, more, dilation, groups, out_dtype="float32"
        )
    )
    return made if bias is None else emit(relax.op.add(made, relax.op.reshape(importer.env[bias], (1, -1, 1, 1, 1))))


def _adaptive_max(node: Any, importer: Any) -> relax.Var:
    """Maxima of as many windows along each axis as are asked for; their places, a second result, are not computed."""
    x, wanted = importer.env[node.args[0]], [int(extent) for extent in node.args[1]]
    emit, extents = importer.block_builder.emit, fixed_extents(str(node.target), x)
    first = len(extents) - len(wanted)
    window = [extent // count for extent, count in zip(extents[first:], wanted, strict=True)]
    divides = [size * count for size, count in zip(window, wanted, strict=True)] == extents[first:]
    if set(wanted) == {1}:
        found = emit(relax.op.max(x, list(range(first, len(extents))), keepdims=True))
    elif divides and len(extents) == 4:
        found = emit(relax.op.nn.max_pool2d(x, window, window))
    else:
        found = x
        for axis, count in enumerate(wanted, first):
            found = emit(_maxima(emit, found, axis, extents[axis], count))
    return emit(relax.Tuple([found, found]))


def _maxima(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr, axis: int, extent: int, count: int) -> relax.Call:
    """Maxima of ``count`` windows along an axis, which begin and end as PyTorch's do."""
    windows = [(at * extent // count, -(-(at + 1) * extent // count)) for at in range(count)]
    parts = [emit(relax.op.strided_slice(x, [axis], [begin], [end])) for begin, end in windows]
    return relax.op.concat([emit(relax.op.max(part, [axis], keepdims=True)) for part in parts], axis)


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


def _variance(node: Any, importer: Any) -> relax.Var:
    """Variance and mean along some axes, or along all."""
    x, axes = importer.env[node.args[0]], node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    keep, less = bool(node.kwargs.get("keepdim", False)), node.kwargs.get("correction", 1)
    along = list(axes) if axes else list(range(x.ty.ndim))
    extents = fixed_extents(str(node.target), x)
    count = math.prod(extents[axis] for axis in along)
    left = count - (1 if less is None else less)
    factor = relax.const(count / left if left > 0 else math.nan, str(x.ty.dtype))
    emit = importer.block_builder.emit
    found = emit(relax.op.multiply(emit(relax.op.variance(x, along, keepdims=keep)), factor))
    return emit(relax.Tuple([found, emit(relax.op.mean(x, along, keepdims=keep))]))


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
    raise unsupported(str(node.target), f"the norm {power:g}")


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


def _reduced(op: Callable[..., relax.Expr]) -> resize.Convert:
    """Over the axes that are the second argument; over all where there are none."""

    def convert(node: Any, importer: Any) -> relax.Var:
        x, axes, keep = list(node.args) + [None] * (3 - len(node.args))
        return importer.block_builder.emit(op(importer.env[x], None if axes == [] else axes, keepdims=bool(keep)))

    return convert
