"""Functions of a real number as TIR expressions of arithmetic, square roots, minima, casts and shifts alone.

Everything is float32. What appears several times is bound to a variable (``Let``): without it the argument of ``exp``
would occur in its formula twenty times, and kernels took twice as long to build.

Operands of minima and maxima are in an order that lets NaN through: TVM lowers ``min(a, b)`` to ``a < b ? a : b``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import tirx

from workers.tvm_backend.passes.fast_math import tables

MANTISSA_BITS = 23
BIAS = 127
"""Bias of a float32's exponent field."""
SHIFTER = 1.5 * 2.0**MANTISSA_BITS + BIAS - 1
"""A float32 of this size has units in its last place, so adding it rounds. The lowest bits of the sum are n - 1 plus
the bias, the exponent field of 2^(n-1)."""

EXP_RANGE = (-87.33, 89.0)
"""At its lower end the exponent field is 0, and so is what is scaled by it; above its upper end exp overflows."""

SMALLEST, SMALLEST_NORMAL = 2.0**-149, 2.0**-126
SQRT_HALF_PATTERN = int(np.float32(0.5**0.5).view(np.int32))
INFINITY_PATTERN = int(np.float32(np.inf).view(np.int32))
NAN_PATTERN = int(np.float32(np.nan).view(np.int32))

MOST_POWER = 4.0
"""Largest exponent that is written out."""

Formula = Callable[..., Any]


def exp(x: Any) -> Any:
    """e^x: x = n ln 2 + f, with ln 2 in two parts (Cody and Waite, 1980), twice a polynomial in f, times 2^(n-1).

    So the largest results do not overflow before they are there. The smallest, 2^-126 and a half of it more, are 0.
    """
    low, high = EXP_RANGE
    bind = _Bindings()
    x = bind("x", _at_most(high, _at_least(low, x)))
    shifted = bind("shifted", x * _real(tables.LOG2_E) + _real(SHIFTER))
    n = bind("n", shifted - _real(SHIFTER))
    f = bind("f", x - n * _real(tables.LN2_HIGH) - n * _real(tables.LN2_LOW))
    twice = _polynomial([2.0 * each for each in (1.0, 1.0, *tables.EXP)], f)
    return bind.around(twice * _power_of_two(tirx.reinterpret("int32", shifted)))


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x)."""
    return tirx.Div(_real(1.0), _real(1.0) + exp(x * _real(-1.0)))


def tanh(x: Any) -> Any:
    """x P(x²) / Q(x²), which is near x where x is small; ±1 where the quotient reaches it."""
    return _odd(x, tables.TANH_RANGE, tables.TANH_NUMERATOR, tables.TANH_DENOMINATOR)


def erf(x: Any) -> Any:
    """x P(x²) / Q(x²), which is near 2x/√π where x is small; ±1 where the quotient reaches it."""
    return _odd(x, tables.ERF_RANGE, tables.ERF_NUMERATOR, tables.ERF_DENOMINATOR)


def log(x: Any) -> Any:
    """ln x: x is m 2^n with m between √½ and √2. It is n ln 2 in two parts plus f - f²/2 + f³ R(f) for f = m - 1.

    Subnormal numbers are scaled into the normal range first.
    """
    bind = _Bindings()
    x = bind("x", x)
    tiny = x < _real(SMALLEST_NORMAL)
    scaled = tirx.Select(tiny, _at_least(SMALLEST, x) * _real(2.0**MANTISSA_BITS), x)
    pattern = bind("pattern", tirx.reinterpret("int32", scaled), "int32")
    k = bind("k", tirx.shift_right(pattern - _integer(SQRT_HALF_PATTERN), _integer(MANTISSA_BITS)), "int32")
    m = tirx.reinterpret("float32", pattern - tirx.shift_left(k, _integer(MANTISSA_BITS)))
    f = bind("f", m - _real(1.0))
    n = bind("n", tirx.Cast("float32", k) - tirx.Select(tiny, _real(float(MANTISSA_BITS)), _real(0.0)))
    square = bind("square", f * f)
    tail = f * square * _polynomial(tables.LOG, f) - square * _real(0.5) + n * _real(tables.LN2_LOW)
    value = tail + f + n * _real(tables.LN2_HIGH)
    infinity, nan = _pattern(INFINITY_PATTERN), _pattern(NAN_PATTERN)
    special = tirx.Select(tirx.EQ(x, _real(0.0)), _real(0.0) - infinity, nan)
    return bind.around(tirx.Select(x > _real(0.0), tirx.Select(x < infinity, value, x), special))


def power(x: Any, exponent: Any) -> Any | None:
    """x raised to a constant multiple of a quarter from -4 to 4, by products and square roots; None for any other.

    Square roots are instructions, and rounded correctly. x^-a is 1 / x^a.
    """
    value = float(exponent.value) if isinstance(exponent, tirx.FloatImm) else 0.0
    whole, quarters = divmod(round(4 * abs(value)), 4)
    if not 0.0 < abs(value) <= MOST_POWER or abs(value) != whole + quarters / 4:
        return None
    bind = _Bindings()
    x = bind("x", x)
    factors = _whole_power(bind, x, whole)
    if quarters:
        root = bind("root", tirx.sqrt(x))
        factors += [root] * (quarters >= 2) + [tirx.sqrt(root)] * (quarters % 2)
    product = functools.reduce(operator.mul, factors)
    return bind.around(product if value > 0.0 else tirx.Div(_real(1.0), product))


def _whole_power(bind: _Bindings, x: Any, whole: int) -> list[Any]:
    """Factors of x raised to a number from 0 to 4."""
    if whole < 2:
        return [x] * whole
    square = bind("square", x * x)
    return [square] + ([x] if whole == 3 else [square] * (whole == 4))


FORMULAS: Mapping[str, Formula] = {
    "tirx.exp": exp,
    "tirx.log": log,
    "tirx.sigmoid": sigmoid,
    "tirx.tanh": tanh,
    "tirx.erf": erf,
    "tirx.pow": power,
}
"""By the name of TIR's operator; one that returns None has nothing better."""


class _Bindings:
    """Variables of an expression and their values, in order."""

    def __init__(self) -> None:
        self._bound: list[tuple[Any, Any]] = []

    def __call__(self, name: str, value: Any, dtype: str = "float32") -> Any:
        """A new variable for ``value``."""
        variable = tirx.Var(name, dtype)
        self._bound.append((variable, value))
        return variable

    def around(self, body: Any) -> Any:
        """``body`` with the values bound."""
        for variable, value in reversed(self._bound):
            body = tirx.Let(variable, value, body)
        return body


def _odd(x: Any, bound: float, numerator: Sequence[float], denominator: Sequence[float]) -> Any:
    """An odd function that tends to ±1, by a quotient that exceeds 1 at ``bound``."""
    bind = _Bindings()
    x = bind("x", _at_most(bound, _at_least(-bound, x)))
    square = bind("square", x * x)
    quotient = tirx.Div(x * _polynomial(numerator, square), _polynomial(denominator, square))
    return bind.around(_at_most(1.0, _at_least(-1.0, quotient)))


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Horner's scheme; the constant term comes first."""
    value = _real(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + _real(coefficient)
    return value


def _power_of_two(shifted: Any) -> Any:
    """2^k from an integer whose lowest nine bits are k plus the bias; the other bits are dropped."""
    return tirx.reinterpret("float32", tirx.shift_left(shifted, _integer(MANTISSA_BITS)))


def _at_least(bound: float, x: Any) -> Any:
    return tirx.Max(_real(bound), x)


def _at_most(bound: float, x: Any) -> Any:
    return tirx.Min(_real(bound), x)


def _real(value: float) -> Any:
    return tirx.const(value, "float32")


def _pattern(value: int) -> Any:
    return tirx.reinterpret("float32", _integer(value))


def _integer(value: int) -> Any:
    return tirx.const(value, "int32")
