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
        none = tirx.const(2**62, "int64")

        def seen(*at: Any) -> tuple[list[Any], Any, Any, Any]:
            """Axes of a window, whether an element of it is in the plane, its place and its key."""
            inner = [te.reduce_axis((0, extent), f"k{n}") for n, extent in enumerate(window)]
            where = [along(at[first + n], inner[n]) for n, along in enumerate(windows)]
            safe = [tirx.max(tirx.min(each, extent - 1), 0) for each, extent in zip(where, spatial, strict=True)]
            inside = tirx.all(*(each.equal(index) for each, index in zip(safe, where, strict=True)))
            place = tirx.const(0, "int64")
            for each, extent in zip(safe, spatial, strict=True):
                place = place * extent + tirx.Cast("int64", each)
            return inner, inside, place, order(*at[:first], *safe)

        def largest(*at: Any) -> Any:
            inner, inside, _, number = seen(*at)
            return te.max(tirx.Select(inside, number, tirx.min_value(kind)), axis=inner)

        def earliest(*at: Any) -> Any:
            inner, inside, place, number = seen(*at)
            return te.min(tirx.Select(tirx.all(inside, number.equal(most(*at))), place, none), axis=inner)

        shape = (*extents[:first], *counts)
        most = te.compute(shape, largest, name="largest")
        return te.compute(shape, earliest, name="places")

    return bb.emit_te(found, x, primfunc_name_hint="places")
