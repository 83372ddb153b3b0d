"""How trials are shared among the sketches of a space: by the best that is known of each.

Only a sketch's best points count, not its mean: the max k-armed bandit (Cicirello and Smith, "The Max K-Armed Bandit",
AAAI 2005). The odds of a sketch fall with how far its best is behind the best of all, measured by how far it may still
come: by the spacing of its best latencies, which tells how fast they grow rarer (Hill, "A Simple General Approach to
Inference About the Tail of a Distribution", 1975), and by how little was tried. A small share is equal for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tunesmith.space.base import Bools, Floats, Ints

SPACED = 3
"""Best latencies of a sketch whose spacing is looked at."""
NOISE = 0.1
"""How far behind, in logarithms, a sketch may be that is not getting better: noise, and what neighbours still gain."""
UNKNOWN = float(np.log(2.0))
"""How far it may come where too little was tried to know."""
EXPLORED = 0.04
"""Share that all sketches get equally."""
HALF = 0.5


class Tally:
    """What was measured of each sketch.

    Attributes:
        tried: int64 [sketches], measurements, failures included.
        best: float64 [sketches, SPACED], seconds, fastest first; infinity where nothing ran.
    """

    def __init__(self, sketches: int) -> None:
        self.tried: Ints = np.zeros(sketches, dtype=np.int64)
        self.best: Floats = np.full((sketches, SPACED), np.inf)

    def take(self, sketch: Ints, seconds: Sequence[float]) -> None:
        """Count measurements: the sketch of each, int64 [n], and its latency, infinity after a failure."""
        np.add.at(self.tried, sketch, 1)
        found = np.array(seconds, dtype=np.float64)
        for s in np.unique(sketch):
            self.best[s] = np.sort(np.concatenate([self.best[s], found[sketch == s]]))[:SPACED]

    @property
    def ran(self) -> int:
        """How many of those counted in ``best`` ran."""
        return int(np.isfinite(self.best).sum())

    def shares(self) -> Floats:
        """What each sketch should have of the next trials, float64 [sketches], of sum 1.

        A sketch of which nothing ran counts as the farther behind the more of it was tried.
        """
        ran = np.isfinite(self.best)
        first = self.best[:, 0]
        leader = float(first.min()) if ran.any() else 1.0
        spacing = np.log(np.where(ran, self.best, 1.0) / np.where(ran[:, :1], self.best[:, :1], 1.0))
        reach = NOISE + np.where(ran, spacing, UNKNOWN)[:, 1:].mean(axis=1)
        return shares(np.where(ran[:, 0], first, leader * (1.0 + self.tried)), reach)

    def state(self) -> list[list[Any]]:
        """Plain JSON: measurements and best latencies of each sketch."""
        return [
            [int(n), [x for x in best.tolist() if x < np.inf]] for n, best in zip(self.tried, self.best, strict=True)
        ]

    def restore(self, state: Sequence[Sequence[Any]]) -> None:
        """Inverse of :meth:`state`."""
        self.tried, self.best = np.zeros(len(state), dtype=np.int64), np.full((len(state), SPACED), np.inf)
        for s, (tried, best) in enumerate(state):
            self.tried[s], self.best[s, : len(best)] = tried, best


def shares(best: Floats, reach: Floats | float) -> Floats:
    """What each sketch should have of some points, float64 [sketches], of sum 1.

    Args:
        best: best latency of each sketch, in seconds.
        reach: how far it may still come, in logarithms.
    """
    behind = np.log(best / best.min())
    odds = np.exp(-((behind / reach) ** 2))
    return np.asarray((1.0 - EXPLORED) * odds / odds.sum() + EXPLORED / len(odds))


def turn(share: Floats, taken: Ints, open_: Bools, start: Floats | float = HALF) -> int:
    """Next to be served by the rule of highest averages (Sainte-Laguë 1910, where ``start`` is one half).

    It is the sketch with the largest share for what was taken.

    Args:
        share: share of each sketch.
        taken: points of each sketch.
        open_: which of them have points left, one at least.
        start: what counts as taken before, above 0 and up to 1; random numbers leave it to chance who gets a part of a
            turn.
    """
    return int(np.argmax(np.where(open_, share / (taken + start), -1.0)))


def turns(share: Floats, left: Ints, n: int, start: Floats | float = HALF) -> Ints:
    """How many of ``n`` turns each sketch has, int64, none of them more than it has points left; see :func:`turn`."""
    taken = np.zeros(len(share), dtype=np.int64)
    for _ in range(min(n, int(left.sum()))):
        taken[turn(share, taken, taken < left, start)] += 1
    return taken


def divide(share: Floats, sketch: Ints, n: int, start: Floats | float = HALF) -> Ints:
    """Positions of ``n`` of some points, which are sorted best first: as many of each sketch as it has turns.

    Args:
        sketch: sketch of each point, int64.
        start: see :func:`turn`.
    """
    counts = turns(share, np.bincount(sketch, minlength=len(share)), n, start)
    chosen = [np.flatnonzero(sketch == s)[:count] for s, count in enumerate(counts)]
    return np.sort(np.concatenate(chosen)).astype(np.int64)
