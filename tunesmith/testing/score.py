"""How good a search is compared with random search and the optimum: the score of Willemsen et al. (2024).

After t evaluations, with f(t) the best latency that the search has found, r(t) the best that random search finds on
average and o the optimum::

    P(t) = (r(t) - f(t)) / (r(t) - o)

0 is as good as random search, 1 is the optimum, below 0 is worse than random. r(t) is computed, not simulated, which
needs a space that was measured completely. The score of a search is the mean of P over a space's budget, then over
the spaces. The budget ends where random search has come most of the way from the median to the optimum; other than in
the paper that way is measured in the logarithm of latency, because the median schedule may be tens of times slower than
the best one, and 95 % of such a way would still be far from it.

"A Methodology for Comparing Auto-Tuning Optimization Algorithms", Future Generation Computer Systems 159.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tunesmith.space.base import Floats

CUTOFF = 0.9
"""Share of the way from the median to the optimum, in the logarithm of latency, at which a space's budget ends."""


def penalised(latency: Floats) -> Floats:
    """Latencies with failures (infinity) counted as the slowest valid one, so that every draw has a value.

    Raises:
        ValueError: when nothing is valid.
    """
    valid = np.isfinite(latency)
    if not valid.any():
        raise ValueError("a space without a valid latency has no optimum")
    out: Floats = np.where(valid, latency, latency[valid].max())
    return out


def random_curve(latency: Floats, budget: int) -> Floats:
    """Expected best latency of random search without repetition after 1..budget of these points: float64 [budget].

    With the N latencies sorted, the best of k draws is slower than the i-th with probability C(N-i, k) / C(N, k);
    the expectation is the sum of these times the steps between neighbours.

    Raises:
        ValueError: when nothing is valid, or the budget exceeds the points.
    """
    values = np.sort(penalised(latency))
    n = len(values)
    if not 0 < budget <= n:
        raise ValueError(f"a budget of {budget} draws does not fit {n} points")
    steps, rank = np.diff(values), np.arange(1, n)
    slower = np.ones(n - 1)
    out = np.empty(budget)
    for k in range(1, budget + 1):
        slower = slower * np.maximum(n - rank - k + 1, 0) / (n - k + 1)
        out[k - 1] = values[0] + slower @ steps
    return out


def budget(latency: Floats, share: float = CUTOFF) -> int:
    """Draws after which random search's expectation has come ``share`` of the way from the median to the optimum.

    Raises:
        ValueError: when nothing is valid.
    """
    values = penalised(latency)
    best, median = float(values.min()), float(np.median(values))
    goal = median * (best / median) ** share
    reached = np.flatnonzero(random_curve(latency, len(values)) <= goal + 1e-12 * median)
    return int(reached[0]) + 1


def score(found: Floats, latency: Floats) -> Floats:
    """P after each evaluation.

    Args:
        found: best latency so far of each run, float64 [runs, budget]; infinity before the first valid one, which
            counts as the slowest of the space.
        latency: latency of every point of the space.

    Returns:
        float64 [runs, budget]; 1 where random search is at the optimum itself.
    """
    values = penalised(latency)
    best = float(values.min())
    return against(np.minimum(found, values.max()), random_curve(latency, found.shape[1]), best)


def against(found: Floats, expected: Floats, best: float) -> Floats:
    """P of curves [runs, budget] between any baseline [budget] and a bound; 1 where the baseline is at the bound."""
    room = expected - best
    flat = room <= 1e-12 * best
    out: Floats = np.where(flat, 1.0, (expected - found) / np.where(flat, 1.0, room))
    return out


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence band."""

    mean: float
    low: float
    high: float


def bootstrap(
    values: Floats, *, confidence: float = 0.95, draws: int = 2000, seed: int = 0, spaces_too: bool = False
) -> Interval:
    """The mean over spaces of means over runs, and a percentile bootstrap of it (Efron 1979). Runs are drawn again
    within each space, spaces are kept.

    Args:
        values: float64 [spaces, runs].
        spaces_too: spaces are drawn again as well, for what is to hold on spaces that are not among them.
    """
    rng = np.random.default_rng(seed)
    spaces, runs = values.shape
    total = np.zeros(draws)
    for place in range(spaces):
        drawn = rng.integers(spaces, size=(draws, 1)) if spaces_too else place
        total += values[drawn, rng.integers(runs, size=(draws, runs))].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(total / spaces, [tail, 1 - tail])
    return Interval(float(values.mean()), float(low), float(high))


def reach(found: Floats, optimum: float, quality: float) -> Floats:
    """Evaluations until a run's best is within ``quality`` of the optimum (0.9: latency <= optimum / 0.9); infinity
    for runs that do not get there. float64 [runs].
    """
    hit = found <= optimum / quality
    first = np.argmax(hit, axis=1) + 1.0
    return np.where(hit.any(axis=1), first, math.inf)
