"""Figures that tables of several benchmarks have: ratios, their geometric means, and microseconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.report import Row
from tunesmith.testing import score

MEAN = "geometric mean"
"""Begins a row of means."""


def micros(seconds: float | None) -> float | None:
    """Microseconds."""
    return None if seconds is None else seconds * 1e6


def ratio(over: float | None, under: float | None) -> float | None:
    """One over the other; None where one of them is not known or the divisor is 0."""
    return over / under if over is not None and under else None


def geometric_mean(values: Sequence[float]) -> float | None:
    """None without values; 0 when one of them is."""
    if not values:
        return None
    return math.exp(statistics.fmean(map(math.log, values))) if min(values) > 0 else 0.0


def geometric_band(ratios: Sequence[float]) -> tuple[float, float, float] | None:
    """The geometric mean of positive ratios and its 95 % bootstrap over them; None without any."""
    if not len(ratios):
        return None
    band = score.bootstrap(np.log(ratios).reshape(-1, 1), spaces_too=True)
    return math.exp(band.mean), math.exp(band.low), math.exp(band.high)


def band_columns(ratios: Sequence[float]) -> Row:
    """The same as columns of a table; all None without any ratio."""
    band = geometric_band(ratios) or (None, None, None)
    return {
        name: None if value is None else round(value, 3)
        for name, value in zip(("ratio", "95 % from", "to"), band, strict=True)
    }


def with_means(
    rows: Sequence[Row], ratios: Collection[str], *, shares: Collection[str] = (), group: str | None = None
) -> list[Row]:
    """The rows, and for each group of them one of geometric means.

    Args:
        rows: of one table; the first column of a mean's says so.
        ratios: columns that have a mean, of what is known.
        shares: columns in whose mean a missing value counts as 1.
        group: the column that tells the groups apart; None: all rows are one.
    """

    def mean(values: Sequence[Any], column: str) -> float | None:
        if column in shares:
            return geometric_mean([1.0 if value is None else value for value in values])
        return geometric_mean([value for value in values if value is not None]) if column in ratios else None

    def means(own: Sequence[Row]) -> Row:
        head, *others = own[0]
        found = {name: own[0][name] if name == group else mean([row[name] for row in own], name) for name in others}
        return {head: MEAN, **found}

    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(group and row[group], []).append(row)
    return [*rows, *map(means, groups.values())]
