"""PyTorch's reductions and normalisations, with the results that TVM's importer leaves out."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tvm import relax

from workers.tvm_backend.frontends.refusals import fixed_extents
from workers.tvm_backend.frontends.torch.resize import Convert


def converters() -> Mapping[str, Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {
        "amax.default": _reduced(relax.op.max),
        "amin.default": _reduced(relax.op.min),
        "prod.dim_int": _reduced(relax.op.prod),
        "prod.default": lambda node, importer: importer.block_builder.emit(relax.op.prod(importer.env[node.args[0]])),
        "mean.dim": _reduced(relax.op.mean),
        "sum.dim_IntList": _reduced(relax.op.sum),
        "sum.default": _reduced(relax.op.sum),
        "mean.default": _reduced(relax.op.mean),
        "var.correction": _variance,
        "std.correction": lambda node, importer: importer.block_builder.emit(relax.op.sqrt(_variance(node, importer))),
        "native_layer_norm.default": _layer_norm,
        "native_group_norm.default": _group_norm,
        "_native_batch_norm_legit.no_stats": _batch_norm,
        "_native_batch_norm_legit_no_training.default": _frozen_batch_norm,
    }


def _reduced(op: Callable[..., relax.Expr]) -> Convert:
    """Over the axes that are the second argument; over all where there are none."""

    def convert(node: Any, importer: Any) -> relax.Var:
        x, axes, keep = list(node.args) + [None] * (3 - len(node.args))
        wanted = str(node.meta["val"].dtype).removeprefix("torch.")
        emit, x = importer.block_builder.emit, importer.env[x]
        x = x if str(x.ty.dtype) == wanted else emit(relax.op.astype(x, wanted))
        if x.ty.ndim == 0:
            return x
        return emit(op(x, None if axes == [] else axes, keepdims=bool(keep)))

    return convert


def _moments(node: Any, importer: Any) -> tuple[relax.Expr, list[int], bool]:
    x, axes = importer.env[node.args[0]], node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    along = [axes] if type(axes) is int else list(axes) if axes else list(range(x.ty.ndim))
    return x, along, bool(node.kwargs.get("keepdim", False))


def _variance(node: Any, importer: Any) -> relax.Var:
    """Along some axes, or along all."""
    x, along, keep = _moments(node, importer)
    less, extents = node.kwargs.get("correction", 1), fixed_extents(str(node.target), x)
    count = math.prod(extents[axis] for axis in along)
    left = count - (1 if less is None else less)
    emit, kind = importer.block_builder.emit, str(x.ty.dtype)
    if count == 1 and left <= 0:  # 0 / 0: the distance of a number to itself is 0, or NaN
        apart = emit(relax.op.subtract(x, x))
        found = emit(relax.op.multiply(apart, relax.const(math.nan, kind)))
        return found if keep else emit(relax.op.squeeze(found, along))
    factor = relax.const(count / left if left > 0 else math.inf, kind)
    return emit(relax.op.multiply(emit(relax.op.variance(x, along, keepdims=keep)), factor))


def _is_asked(node: Any) -> bool:
    """Whether anything uses more than the first result."""
    return any(user.target is not operator.getitem or user.args[1] > 0 for user in node.users)


def _with_moments(
    node: Any, importer: Any, made: relax.Expr, x: relax.Expr, axes: list[int], epsilon: float, keep: bool
) -> relax.Var:
    """A normalised tensor, the means, and the inverses of the deviations; the last two only where they are used."""
    emit = importer.block_builder.emit
    if not _is_asked(node):
        return emit(relax.Tuple([made, made, made]))
    mean = emit(relax.op.mean(x, axes, keepdims=keep))
    variance = emit(relax.op.variance(x, axes, keepdims=keep))
    inverse = emit(relax.op.rsqrt(emit(relax.op.add(variance, relax.const(epsilon, str(x.ty.dtype))))))
    return emit(relax.Tuple([made, mean, inverse]))


def _layer_norm(node: Any, importer: Any) -> relax.Var:
    x, shape, _, _, epsilon = node.args
    made, x = importer._native_layer_norm(node), importer.env[x]
    return _with_moments(node, importer, made, x, list(range(x.ty.ndim - len(shape), x.ty.ndim)), epsilon, True)


def _group_norm(node: Any, importer: Any) -> relax.Var:
    x, _, _, count, _, _, groups, epsilon = node.args
    made, x = importer._native_group_norm(node), importer.env[x]
    flat = importer.block_builder.emit(relax.op.reshape(x, [int(count), int(groups), -1])) if _is_asked(node) else x
    return _with_moments(node, importer, made, flat, [2], epsilon, False)


def _batch_norm(node: Any, importer: Any) -> relax.Var:
    x = importer.env[node.args[0]]
    axes = [axis for axis in range(x.ty.ndim) if axis != 1]
    return _with_moments(node, importer, importer._batch_norm_legit_no_stats(node), x, axes, node.args[5], False)


def _frozen_batch_norm(node: Any, importer: Any) -> relax.Var:
    """Batch normalisation by stored moments; the results that only training needs have no elements."""
    made, kind = importer._batch_norm_legit_no_training(node), str(importer.env[node.args[0]].ty.dtype)
    emit = importer.block_builder.emit
    if not _is_asked(node):
        return emit(relax.Tuple([made, made, made]))
    nothing = emit(relax.op.zeros([0], kind))
    return emit(relax.Tuple([made, nothing, nothing]))
