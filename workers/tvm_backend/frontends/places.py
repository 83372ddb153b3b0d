"""Places of maxima in windows: NaN is the largest number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx

from workers.tvm_backend.frontends.refusals import fixed_extents
from workers.tvm_backend.passes import ordering

Windows = Sequence[Callable[[Any, Any], Any]]
"""Functions of a window and an element, one an axis: the place of that element, which may lie in the padding."""


def sliding(window: Sequence[int], strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> Windows:
    """Windows of a pool."""

    def along(n: int) -> Callable[[Any, Any], Any]:
        return lambda at, k: at * strides[n] - padding[n] + k * dilation[n]

    return [along(n) for n in range(len(window))]


def adaptive(extents: Sequence[int], counts: Sequence[int]) -> tuple[list[int], Windows]:
    """Extents of the largest of PyTorch's adaptive windows, and these; small ones repeat their last element."""

    def along(extent: int, count: int) -> Callable[[Any, Any], Any]:
        return lambda at, k: tirx.min(
            tirx.floordiv(at * extent, count) + k, tirx.floordiv((at + 1) * extent + count - 1, count) - 1
        )

    sizes = [
        max(-(-(at + 1) * extent // count) - at * extent // count for at in range(count))
        for extent, count in zip(extents, counts, strict=True)
    ]
    return sizes, [along(*each) for each in zip(extents, counts, strict=True)]


def of_maxima(
    name: str, bb: Any, x: relax.Expr, window: Sequence[int], windows: Windows, counts: Sequence[int]
) -> relax.Var:
    """Where each window's maximum is in its plane, counted row by row as int64; NaN is the maximum."""
    extents = fixed_extents(name, x)
    first = len(extents) - len(window)
    spatial = extents[first:]

    def found(x: te.Tensor) -> te.Tensor:
        order = ordering.key(x) if ordering.is_float(x) else x
        kind = str(order.dtype)
        inner = [te.reduce_axis((0, extent), f"k{n}") for n, extent in enumerate(window)]

        def better(a: Any, b: Any) -> Any:
            left = tirx.any(a[1] > b[1], tirx.all(a[1] == b[1], a[0] < b[0]))
            return tirx.Select(left, a[0], b[0]), tirx.Select(left, a[1], b[1])

        def worst(place: str, value: str) -> Any:
            return tirx.const(2**62, place), tirx.min_value(value)

        reducer = te.comm_reducer(better, worst, name="places")

        def value(*at: Any) -> Any:
            where = [along(at[first + n], inner[n]) for n, along in enumerate(windows)]
            inside = tirx.all(
                *(tirx.all(each >= 0, each < extent) for each, extent in zip(where, spatial, strict=True))
            )
            place = tirx.const(0, "int64")
            for each, extent in zip(where, spatial, strict=True):
                place = place * extent + each
            safe = [tirx.max(tirx.min(each, extent - 1), 0) for each, extent in zip(where, spatial, strict=True)]
            number = tirx.Select(inside, order(*at[:first], *safe), tirx.min_value(kind))
            return reducer(
                (tirx.Select(inside, tirx.Cast("int64", place), tirx.const(2**62, "int64")), number), axis=inner
            )

        return te.compute((*extents[:first], *counts), value, name="places")[0]

    return bb.emit_te(found, x, primfunc_name_hint="places")
