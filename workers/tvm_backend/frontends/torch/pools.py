"""PyTorch's pools, with the places of maxima and with windows that fit."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from tvm import relax

from workers.tvm_backend.frontends import places
from workers.tvm_backend.frontends.refusals import fixed_extents
from workers.tvm_backend.frontends.torch.resize import Convert


def converters() -> Mapping[str, Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {
        **{f"max_pool{count}d_with_indices.default": _max(count) for count in (2, 3)},
        **{f"adaptive_max_pool{count}d.default": _adaptive_max for count in (2, 3)},
    }


def _has_places(node: Any) -> bool:
    """Whether anything uses the second result."""
    return any(user.target is not operator.getitem or user.args[1] > 0 for user in node.users)


def _each(given: Any, count: int) -> list[int]:
    """One number for each axis, of one for all or one for each."""
    found = [given] if type(given) is int else list(given)
    return found * count if len(found) == 1 else found


def _max(count: int) -> Convert:
    """Maxima of windows, and their places where they are used."""

    def convert(node: Any, importer: Any) -> relax.Var:
        x, *given = node.args
        bb, x = importer.block_builder, importer.env[x]
        defaults: list[Any] = [None, [], 0, 1, False]
        window, strides, padding, dilation, ceil = list(given) + defaults[len(given) :]
        window, strides, padding, dilation = (
            _each(each, count) for each in (window, strides or window, padding, dilation)
        )
        single = x.ty.ndim == count + 1
        wide = bb.emit(relax.op.expand_dims(x, 0)) if single else x
        pool = getattr(relax.op.nn, f"max_pool{count}d")
        found = bb.emit(pool(wide, window, strides, padding, dilation, bool(ceil)))
        wanted = [int(extent) for extent in node.meta["val"][0].shape]
        found = bb.emit(relax.op.squeeze(found, [0])) if single else found
        if not _has_places(node):
            return bb.emit(relax.Tuple([found, found]))
        windows = places.sliding(window, strides, padding, dilation)
        where = places.of_maxima(str(node.target), bb, x, window, windows, wanted[-count:])
        return bb.emit(relax.Tuple([found, where]))

    return convert


def _adaptive_max(node: Any, importer: Any) -> relax.Var:
    """Maxima of as many windows along each axis as are asked for, and their places where they are used."""
    x, wanted = importer.env[node.args[0]], [int(extent) for extent in node.args[1]]
    bb, extents = importer.block_builder, fixed_extents(str(node.target), x)
    first = len(extents) - len(wanted)
    found = _adaptive(bb.emit, x, wanted, extents)
    if not _has_places(node):
        return bb.emit(relax.Tuple([found, found]))
    sizes, windows = places.adaptive(extents[first:], wanted)
    return bb.emit(relax.Tuple([found, places.of_maxima(str(node.target), bb, x, sizes, windows, wanted)]))


def _adaptive(
    emit: Callable[[relax.Expr], relax.Var], x: relax.Expr, wanted: list[int], extents: list[int]
) -> relax.Var:
    first = len(extents) - len(wanted)
    window = [extent // count for extent, count in zip(extents[first:], wanted, strict=True)]
    divides = [size * count for size, count in zip(window, wanted, strict=True)] == extents[first:]
    if set(wanted) == {1}:
        return emit(relax.op.max(x, list(range(first, len(extents))), keepdims=True))
    if divides and len(extents) == 4:
        return emit(relax.op.nn.max_pool2d(x, window, window))
    found = x
    for axis, count in enumerate(wanted, first):
        found = emit(_maxima(emit, found, axis, extents[axis], count))
    return found


def _maxima(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr, axis: int, extent: int, count: int) -> relax.Call:
    """Maxima of ``count`` windows along an axis, which begin and end as PyTorch's do."""
    windows = [(at * extent // count, -(-(at + 1) * extent // count)) for at in range(count)]
    parts = [emit(relax.op.strided_slice(x, [axis], [begin], [end])) for begin, end in windows]
    return relax.op.concat([emit(relax.op.max(part, [axis], keepdims=True)) for part in parts], axis)
