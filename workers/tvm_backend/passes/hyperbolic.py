"""Hyperbolic functions as arithmetic and exponentials: TVM has neither vectors of them nor half-precision ones."""

from __future__ import annotations

import math
from typing import Any

from tvm import te, tirx

TERMS = {"float32": 6, "float64": 10}
"""Terms of the series that hold below 1 to the type's last digit."""


def sinh(x: te.Tensor) -> te.Tensor:
    """By its Taylor series below 1, where the difference of exponentials cancels, and by these elsewhere."""
    kind = str(x.dtype)

    def value(*at: Any) -> Any:
        size = tirx.abs(x(*at))
        square, series = size * size, tirx.const(0.0, kind)
        for term in reversed(range(TERMS[kind])):
            series = series * square + tirx.const(1 / math.factorial(2 * term + 1), kind)
        grown, shrunk = _halves(size, kind)
        found = tirx.Select(size < tirx.const(1.0, kind), size * series, grown - shrunk)
        return tirx.Select(x(*at) < tirx.const(0.0, kind), -found, found)

    return te.compute(x.shape, value, name="sinh")


def cosh(x: te.Tensor) -> te.Tensor:
    """The mean of an exponential and its inverse."""
    return te.compute(x.shape, lambda *at: sum(_halves(tirx.abs(x(*at)), str(x.dtype))), name="cosh")


def _halves(size: Any, kind: str) -> tuple[Any, Any]:
    """Halves of exp(size) and of its inverse; the square of exp(size / 2) overflows only where the result does."""
    half = tirx.const(0.5, kind)
    root = tirx.exp(size * half)
    return half * root * root, half / root / root
