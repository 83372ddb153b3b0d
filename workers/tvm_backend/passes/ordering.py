"""Order among numbers that may be none: maxima, minima and bounds that keep NaN, and keys to sort by.

TVM's maximum of NaN and a number is the one that comes second, and its sorts compare NaN as equal to all. PyTorch, ONNX
and NumPy keep NaN, and sort it behind every number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx, topi

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
SMALL = frozenset({"float16", "bfloat16"})

Compare = Callable[[Any, Any], Any]


def is_float(x: Any) -> bool:
    """Whether a tensor or an expression may hold NaN."""
    return str(x.dtype) in FLOATS


def relu(x: te.Tensor) -> te.Tensor:
    """The larger of each element and 0; NaN stays."""
    zero = tirx.const(0, x.dtype)
    return te.compute(x.shape, lambda *at: tirx.Select(x(*at) < zero, zero, x(*at)), name="relu")


def clip(x: te.Tensor, low: Any, high: Any) -> te.Tensor:
    """Elements between two bounds; NaN stays, and the upper bound wins where the lower one is larger."""
    bounds = [tirx.const(float(getattr(bound, "value", bound)), x.dtype) for bound in (low, high)]

    def bounded(*at: Any) -> Any:
        raised = tirx.Select(x(*at) < bounds[0], bounds[0], x(*at))
        return tirx.Select(raised > bounds[1], bounds[1], raised)

    return te.compute(x.shape, bounded, name="clip")


def _is_nan(a: tirx.PrimExpr) -> tirx.PrimExpr:
    """TVM knows NaN of float32 and float64 alone."""
    return tirx.isnan(a.astype("float32") if str(a.ty.dtype) == "bfloat16" else a)


def _with_known(a: Any, b: Any) -> tuple[Any, Any] | None:
    """The literal among two operands and the other one; None where there is none, or it is NaN."""
    for known, other in ((a, b), (b, a)):
        if isinstance(known, tirx.FloatImm) and not math.isnan(known.value):
            return known, other
    return None


def larger(a: Any, b: Any) -> Any:
    """The larger of two numbers, or the NaN among them.

    Next to a known number it is one comparison, and one instruction of most CPUs: what is compared with it may be NaN,
    for which every comparison is false.
    """
    if str(a.ty.dtype) not in FLOATS:
        return tirx.Max(a, b)
    if (two := _with_known(a, b)) is not None:
        known, other = two
        return tirx.Select(other < known, known, other)
    return tirx.Select(tirx.any(a > b, _is_nan(a)), a, b)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two numbers, or the NaN among them; see :func:`larger`."""
    if (two := _with_known(a, b)) is not None:
        known, other = two
        return tirx.Select(other > known, known, other)
    return tirx.Select(tirx.any(a < b, _is_nan(a)), a, b)


def _reducer(choose: Compare, worst: float) -> Callable[..., Any]:
    return te.comm_reducer(choose, lambda dtype: _extreme(worst, dtype))  # type: ignore[no-any-return]


def _extreme(worst: float, dtype: str) -> Any:
    """An infinity, or the whole number that comes nearest."""
    if str(dtype) in FLOATS:
        return tirx.const(worst, dtype)
    return tirx.min_value(dtype) if worst < 0 else tirx.max_value(dtype)


LARGEST, SMALLEST = _reducer(larger, -math.inf), _reducer(smaller, math.inf)


def reduced(x: te.Tensor, axes: Sequence[int], keepdims: bool, reducer: Callable[..., Any], name: str) -> te.Tensor:
    """The extreme along some axes, by ``LARGEST`` or ``SMALLEST``."""
    shape = [extent for axis, extent in enumerate(x.shape) if keepdims or axis not in axes]
    inner = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in axes}

    def value(*at: Any) -> Any:
        left = iter(at)
        kept = [next(left) if keepdims or axis not in axes else None for axis in range(len(x.shape))]
        return reducer(x(*(inner.get(axis, kept[axis]) for axis in range(len(x.shape)))), axis=list(inner.values()))

    if keepdims:
        return te.compute([1 if axis in axes else extent for axis, extent in enumerate(x.shape)], value, name=name)
    return te.compute(shape, value, name=name)


def max_pool(
    x: te.Tensor,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    shape: Sequence[int],
) -> te.Tensor:
    """The largest element of each window; NaN where the window has one.

    Args:
        x: [N, C, …, spatial …] or in blocks of channels behind the spatial axes, which begin at the third axis.
        padding: in front of each spatial axis, then behind each.
        shape: extents of the result, which say how far windows reach past the end.
    """
    first, count = 2, len(window)
    spatial = range(first, first + count)
    before = dict(zip(spatial, padding[:count], strict=True))
    needed = {
        axis: (int(shape[axis]) - 1) * strides[n] + (window[n] - 1) * dilation[n] + 1 for n, axis in enumerate(spatial)
    }
    inside = all(before[axis] == 0 and needed[axis] <= int(x.shape[axis]) for axis in spatial)
    least = _extreme(-math.inf, x.dtype)

    def padded(*at: Any) -> Any:
        source = [index - before.get(axis, 0) for axis, index in enumerate(at)]
        tests = [tirx.all(source[axis] >= 0, source[axis] < x.shape[axis]) for axis in spatial]
        return tirx.if_then_else(tirx.all(*tests), x(*source), least)

    extents = [max(needed[axis], int(x.shape[axis])) if axis in needed else x.shape[axis] for axis in range(x.ndim)]
    source = x if inside else te.compute(extents, padded, name="pad_temp")
    places = [te.reduce_axis((0, extent), f"rv{n}") for n, extent in enumerate(window)]

    def largest(*at: Any) -> Any:
        index = list(at)
        for n, axis in enumerate(spatial):
            index[axis] = at[axis] * strides[n] + places[n] * dilation[n]
        return LARGEST(source(*index), axis=places)

    return te.compute(shape, largest, name="pool_max")


def key(x: te.Tensor, nan_last: bool = True) -> te.Tensor:
    """Whole numbers in the order of floating-point ones; equal for both zeros.

    A float's bits are in its order where it is positive, and in the opposite one where it is negative.

    Args:
        nan_last: NaN is above every number; otherwise below.
    """
    kind, most = ("int64", 2**63 - 1) if str(x.dtype) == "float64" else ("int32", 2**31 - 1)
    wide = topi.cast(x, "float32") if str(x.dtype) in SMALL else x
    top = tirx.const(most, kind)
    nan = top if nan_last else tirx.const(-most - 1, kind)

    def of(*at: Any) -> Any:
        value = wide(*at)
        bits = tirx.reinterpret(kind, value)
        ordered = tirx.Select(bits < tirx.const(0, kind), tirx.bitwise_xor(bits, top), bits)
        number = tirx.Select(value == tirx.const(0, wide.dtype), tirx.const(0, kind), ordered)
        return tirx.Select(tirx.isnan(value), nan, number)

    return te.compute(x.shape, of, name="order")
