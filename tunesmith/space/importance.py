"""How much of the latency each column of some candidates explains by itself. Pure."""

from __future__ import annotations

import numpy as np

from tunesmith.space.base import Floats


def explained(values: Floats, latency: Floats) -> Floats:
    """Share of the variance of log latency that each column's value alone explains, 0 to 1, float64 [columns].

    It is epsilon squared of an analysis of variance with one factor (Kelley 1935): the correlation ratio less what as
    many groups explain by chance. That is a column's main effect, as in functional analysis of variance (Hutter, Hoos
    and Leyton-Brown, ICML 2014), of the candidates as a search chose them: an effect that needs two columns at once
    does not show.

    Args:
        values: float64 [candidates, columns].
        latency: seconds, above 0, float64 [candidates].
    """
    target = np.log(latency)
    spread = float(((target - target.mean()) ** 2).sum()) if len(target) else 0.0
    if spread <= 0.0:
        return np.zeros(values.shape[1])
    return np.array([_epsilon(column, target, spread) for column in values.T])


def _epsilon(column: Floats, target: Floats, spread: float) -> float:
    distinct, group = np.unique(column, return_inverse=True)
    free = len(target) - len(distinct)
    if len(distinct) < 2 or free < 1:
        return 0.0
    size = np.bincount(group)
    mean = np.bincount(group, weights=target) / size
    between = float((size * (mean - target.mean()) ** 2).sum())
    by_chance = (len(distinct) - 1) * (spread - between) / free
    return min(1.0, max(0.0, (between - by_chance) / spread))
