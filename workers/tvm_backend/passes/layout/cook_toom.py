"""Matrices of Winograd's minimal filtering F(m, 3), by interpolation at small integers.

A filter's product with m + 2 neighbours is the transpose of a product of polynomials, which is evaluated at m + 1
points and at infinity, multiplied there, and interpolated (Toom, 1963; Cook, 1966; Winograd, "Arithmetic complexity of
computations", 1980). Lavin and Gray, "Fast algorithms for convolutional neural networks" (2016), have the same matrices
except for signs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TAPS = 3
"""Taps of the filter."""


@dataclass(frozen=True)
class Filtering:
    """``y = out @ ((weight @ g) * (data @ d))`` for m outputs y of a filter g on m + 2 values d.

    Attributes:
        points: that are interpolated at: 0, then pairs of opposite ones; infinity stands behind them.
        data: float64 [m + 2, m + 2], integers.
        weight: float64 [m + 2, 3].
        out: float64 [m, m + 2], integers.
    """

    points: tuple[int, ...]
    data: NDArray[Any]
    weight: NDArray[Any]
    out: NDArray[Any]


@functools.cache
def filtering(m: int) -> Filtering:
    """F(m, 3) for an even m.

    A row of ``data`` is a product of ``x - q`` over the other points q; what Lagrange divides it by is in ``weight``.
    """
    points = (0, *(sign * size for size in range(1, m // 2 + 1) for sign in (1, -1)))
    others = [[q for q in points if q != p] for p in points]
    rows = [np.poly(each)[::-1] for each in (*others, points)]  # np.poly has the highest power first
    data = np.array([np.pad(row, (0, m + TAPS - 1 - len(row))) for row in rows])
    scales = [np.prod([float(p - q) for q in each]) for p, each in zip(points, others, strict=True)]
    weight = [[p**k / scale for k in range(TAPS)] for p, scale in zip(points, scales, strict=True)]
    out = [[*(float(p**k) for p in points), float(k == m - 1)] for k in range(m)]
    return Filtering(points, np.round(data), np.array([*weight, [0.0, 0.0, 1.0]]), np.array(out))
