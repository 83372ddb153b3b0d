"""PyTorch's writes at indices that reduce: in terms of those that include what was there."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any

torch: Any = importlib.import_module("torch")
WORDS = {"add": "sum", "multiply": "prod"}
"""Older names of reductions."""
FORMS = ("sum", "prod", "amax", "amin")


def neutral(dtype: Any, how: str) -> Any:
    """What changes nothing in a reduction."""
    if how in ("sum", "prod", "mean"):
        return 1 if how == "prod" else 0
    if dtype.is_floating_point:
        return -math.inf if how == "amax" else math.inf
    limits = torch.iinfo(dtype)
    return limits.min if how == "amax" else limits.max


def _reduce(x: Any, axis: int, index: Any, values: Any, how: str, *, include_self: bool = True) -> Any:
    if x.ndim == 0:
        one = (each.reshape(1) for each in (x, index, values))
        x, index, values = one
        return torch.scatter_reduce(x, 0, index, values, how, include_self=include_self).reshape([])
    if how in FORMS and include_self:
        return NotImplemented
    written = torch.zeros(x.shape, dtype=torch.int64)
    written = torch.scatter_add(written, axis, index, torch.ones(index.shape, dtype=torch.int64))
    base = x if include_self else torch.where(written > 0, neutral(x.dtype, how), x)
    if how != "mean":
        return torch.scatter_reduce(base, axis, index, values, how)
    total = torch.scatter_add(base, axis, index, values)
    count = (written + int(include_self)).clamp(min=1)
    return total / count if x.is_floating_point() else torch.div(total, count, rounding_mode="floor")


def _add(x: Any, axis: int, index: Any, values: Any) -> Any:
    return torch.scatter_reduce(x, axis, index, values, "sum")


def _older(x: Any, axis: int, index: Any, values: Any, *, reduce: str) -> Any:
    values = values if isinstance(values, torch.Tensor) else torch.full(index.shape, values, dtype=x.dtype)
    return torch.scatter_reduce(x, axis, index, values, WORDS[reduce])


def _index_reduce(x: Any, axis: int, index: Any, values: Any, how: str, *, include_self: bool = True) -> Any:
    how = {"mean": "mean", "prod": "prod", "amax": "amax", "amin": "amin"}[how]
    axis %= max(x.ndim, 1)
    shape = [-1 if each == axis else 1 for each in range(values.ndim)]
    wide = index.to(torch.int64).reshape(shape).expand(values.shape)
    return torch.scatter_reduce(x, axis, wide, values, how, include_self=include_self)


def _put(x: Any, index: Any, values: Any, accumulate: bool = False) -> Any:
    flat, index = x.reshape(-1), index.reshape(-1) % x.numel()
    values = values.reshape(-1).to(x.dtype)
    found = torch.scatter_reduce(flat, 0, index, values, "sum") if accumulate else flat.scatter(0, index, values)
    return found.reshape(x.shape)


def _masked_scatter(x: Any, mask: Any, values: Any) -> Any:
    """The nth place of a mask takes the nth value."""
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    x, mask = x.expand(shape), mask.expand(shape)
    place = (mask.reshape(-1).cumsum(0) - 1).clamp(0, values.numel() - 1)
    return torch.where(mask, values.reshape(-1).index_select(0, place).reshape(shape), x)


def _segments(
    data: Any,
    how: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """Reductions of runs along an axis, by a mask of which element is in which run."""
    how = {"max": "amax", "min": "amin"}.get(how, how)
    bounds = lengths.cumsum(-1) if offsets is None else offsets
    first = bounds - lengths if offsets is None else offsets[..., :-1]
    last = bounds if offsets is None else offsets[..., 1:]
    at = torch.arange(data.shape[axis])
    inside = (at >= first.unsqueeze(-1)) & (at < last.unsqueeze(-1))
    moved = data.unsqueeze(axis)
    mask = inside.reshape([*inside.shape, *[1] * (moved.ndim - inside.ndim)])
    start = neutral(data.dtype, how) if initial is None else initial
    kept = torch.where(mask, moved, neutral(data.dtype, how))
    if how in ("sum", "mean"):
        found = kept.sum(axis + 1) + start
    elif how == "prod":
        found = kept.prod(axis + 1) * start
    else:
        edge = torch.full([], start, dtype=data.dtype)
        found = torch.maximum(kept.amax(axis + 1), edge) if how == "amax" else torch.minimum(kept.amin(axis + 1), edge)
    if how != "mean":
        return found
    count = inside.sum(-1).reshape([*inside.shape[:-1], *[1] * (found.ndim - inside.ndim + 1)])
    return torch.where(count == 0, math.nan if initial is None else start, found / count.clamp(min=1))


def _written(x: Any, values: Any, places: Callable[[Any], Any]) -> Any:
    """Values at the places that a view of the whole numbers in order shows."""
    at = places(torch.arange(x.numel()).reshape(x.shape)).reshape(-1)
    return x.reshape(-1).scatter(0, at, values.reshape(-1).to(x.dtype)).reshape(x.shape)


def _diagonal(x: Any, values: Any, offset: int = 0, first: int = 0, last: int = 1) -> Any:
    return _written(x, values, lambda at: at.diagonal(offset, first, last))


def _strided(x: Any, values: Any, size: list[int], steps: list[int], start: int | None = None) -> Any:
    return _written(x, values, lambda at: at.as_strided(size, steps, start or 0))


OURS: Mapping[str, Callable[..., Any]] = {
    "scatter_reduce.two": _reduce,
    "scatter_add": _add,
    **dict.fromkeys(("scatter.reduce", "scatter.value_reduce"), _older),
    "index_reduce": _index_reduce,
    "put": _put,
    "masked_scatter": _masked_scatter,
    "segment_reduce": _segments,
    "diagonal_scatter": _diagonal,
    "as_strided_scatter": _strided,
    "as_strided_copy": lambda x, size, steps, start=None: x.as_strided(size, steps, start),
}
"""By the operator's name, as ``decompositions.OURS``."""
