"""Fit the coefficients of fast math: ``python -m tools.fit_math > workers/tvm_backend/passes/fast_math/tables.py``.

A fit is least squares at Chebyshev nodes, repeated with each weight multiplied by the error left there, which tends
to the smallest largest error (Lawson, 1961). A quotient P/Q is linear in its coefficients once its error is multiplied
by Q, and divided by the Q of the round before (Sanathanan and Koerner, 1963). Decimals of 60 digits make the tables
the same on every machine, ill-conditioned as the equations are.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

DIGITS = 60
NODES = 120
ROUNDS = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
LOG_DEGREE = 7
LN2_BITS = 9
"""Bits of the first part of ln 2 after the point: its products with exponents are exact."""
MARGIN = Decimal(2) ** -20
"""By how much a quotient must exceed 1 where its argument is cut off: more than it can be rounded down."""

Function = Callable[[Decimal], Decimal]


@dataclass(frozen=True)
class Fit:
    """P(v)/Q(v) for g(x), v a function of x.

    Attributes:
        low, high: range of x.
        variable: v.
        value: g.
        weight: weight of the error g - P/Q; x is never 0.
        numerator, denominator: degrees; Q(0) is 1.
    """

    low: Decimal
    high: Decimal
    variable: Function
    value: Function
    weight: Function
    numerator: int
    denominator: int = 0


def exp_tail() -> Fit:
    """(e^f - 1 - f) / f² for half a ln 2 on both sides of 0, in the relative error of e^f."""
    high = Decimal(2).ln() / 2 + Decimal("0.001")
    return Fit(-high, high, lambda f: f, lambda f: (f.exp() - 1 - f) / (f * f), lambda f: f * f / f.exp(), 4)


def log_tail() -> Fit:
    """(ln(1 + f) - f + f²/2) / f³ for 1 + f from √½ to √2, in the relative error of ln(1 + f)."""
    low, high = Decimal("0.5").sqrt() - 1, Decimal(2).sqrt() - 1
    return Fit(
        low,
        high,
        lambda f: f,
        lambda f: ((1 + f).ln() - f + f * f / 2) / f**3,
        lambda f: f**3 / (1 + f).ln(),
        LOG_DEGREE,
    )


def odd(function: Function, high: str, numerator: int, denominator: int) -> Fit:
    """f(x)/x as a quotient in x², in the relative error of f."""
    return Fit(
        Decimal(0),
        Decimal(high),
        lambda x: x * x,
        lambda x: function(x) / x,
        lambda x: x / function(x),
        numerator,
        denominator,
    )


def tanh(x: Decimal) -> Decimal:
    """Hyperbolic tangent."""
    e = (-2 * x).exp()
    return (1 - e) / (1 + e)


def erf(x: Decimal) -> Decimal:
    """Error function of x >= 0: 2/√π e^(-x²) Σ 2^n x^(2n+1) / (2n+1)!!, whose terms are positive."""
    term, total, n = x, x, 0
    while term > total * Decimal(10) ** -DIGITS:
        n += 1
        term = term * 2 * x * x / (2 * n + 1)
        total += term
    return 2 / PI.sqrt() * (-x * x).exp() * total


def coefficients(fit: Fit) -> tuple[list[Decimal], list[Decimal]]:
    """Coefficients of P and Q, the constant term first."""
    nodes = [
        fit.low + (fit.high - fit.low) * Decimal((1 - math.cos(math.pi * (i + 0.5) / NODES)) / 2) for i in range(NODES)
    ]
    v, g, w = ([of(x) for x in nodes] for of in (fit.variable, fit.value, fit.weight))
    rows = [
        [v[i] ** k for k in range(fit.numerator + 1)] + [-g[i] * v[i] ** k for k in range(1, fit.denominator + 1)]
        for i in range(NODES)
    ]
    lawson, q = [Decimal(1)] * NODES, [Decimal(1)] * NODES
    top, bottom = [Decimal(0)], [Decimal(1)]
    for _ in range(ROUNDS):
        squares = [lawson[i] * (w[i] / q[i]) ** 2 for i in range(NODES)]
        solved = _least_squares(rows, g, squares)
        top, bottom = solved[: fit.numerator + 1], [Decimal(1), *solved[fit.numerator + 1 :]]
        q = [_at(bottom, x) for x in v]
        lawson = [lawson[i] * abs(g[i] - _at(top, v[i]) / q[i]) * w[i] for i in range(NODES)]
        lawson = [x / sum(lawson) for x in lawson]
    return top, bottom


def _least_squares(rows: list[list[Decimal]], values: list[Decimal], squares: list[Decimal]) -> list[Decimal]:
    """Solve the normal equations by elimination."""
    size = len(rows[0])
    extended = [[*row, value] for row, value in zip(rows, values, strict=True)]
    matrix = [
        [
            sum((s * row[i] * row[j] for row, s in zip(extended, squares, strict=True)), Decimal(0))
            for j in range(size + 1)
        ]
        for i in range(size)
    ]
    for i in range(size):
        for j in range(i + 1, size):
            factor = matrix[j][i] / matrix[i][i]
            matrix[j] = [a - factor * b for a, b in zip(matrix[j], matrix[i], strict=True)]
    solved = [Decimal(0)] * size
    for i in reversed(range(size)):
        rest = sum((matrix[i][j] * solved[j] for j in range(i + 1, size)), Decimal(0))
        solved[i] = (matrix[i][size] - rest) / matrix[i][i]
    return solved


def _at(polynomial: Sequence[Decimal], x: Decimal) -> Decimal:
    value = Decimal(0)
    for coefficient in reversed(polynomial):
        value = value * x + coefficient
    return value


def cut_off(fit: Fit, top: Sequence[Decimal], bottom: Sequence[Decimal]) -> Decimal:
    """The first multiple of 1/64 beyond the fit's range at which x P(x²)/Q(x²) exceeds 1 by ``MARGIN``.

    Raises:
        ValueError: the quotient falls there; another degree is needed.
    """
    for step in range(64):
        x = (fit.high * 64).to_integral_value() / 64 + Decimal(step) / 64
        if x * _at(top, x * x) / _at(bottom, x * x) > 1 + MARGIN:
            return x
    raise ValueError("the quotient does not pass 1")


def tables() -> dict[str, tuple[float, ...]]:
    """The constants by name, rounded to float32."""
    with localcontext() as context:
        context.prec = DIGITS
        ln2 = Decimal(2).ln()
        high = (ln2 * 2**LN2_BITS).to_integral_value() / 2**LN2_BITS
        found = {
            "LOG2_E": [1 / ln2],
            "LN2_HIGH": [high],
            "LN2_LOW": [ln2 - high],
            "EXP": coefficients(exp_tail())[0],
            "LOG": coefficients(log_tail())[0],
        }
        for name, fit in (("TANH", odd(tanh, "9.02", 4, 4)), ("ERF", odd(erf, "3.93", 5, 5))):
            top, bottom = coefficients(fit)
            found |= {
                f"{name}_RANGE": [cut_off(fit, top, bottom)],
                f"{name}_NUMERATOR": top,
                f"{name}_DENOMINATOR": bottom,
            }
    return {name: tuple(float(str(np.float32(float(value)))) for value in values) for name, values in found.items()}


def text() -> str:
    """The module of tables."""
    lines = ['"""Coefficients, the constant term first; written by ``tools/fit_math.py``."""', ""]
    for name, values in tables().items():
        one = len(values) == 1
        lines += [f"{name} = {values[0]!r}"] if one else [f"{name} = (", *(f"    {v!r}," for v in values), ")"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
