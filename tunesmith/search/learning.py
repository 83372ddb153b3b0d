"""What searchers share that learn from every measurement: a history, guesses from it, and looks at what they promise.

An exact score costs milliseconds. So a method roams the space on a cheap guess of it, only the best of what it visited
gets an exact look, some points at a time, and each look makes the next guess better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.codes import Codes
from tunesmith.search.diverse import diverse
from tunesmith.search.guess import Belief, believe, from_history
from tunesmith.search.history import History
from tunesmith.search.hunt import Hunt
from tunesmith.search.points import PointSearcher
from tunesmith.space.base import Batch, Floats, Ints
from tunesmith.space.space import Space
from tunesmith.types import Measurement

MORE_LOOKS = 3
"""How many times as many looks an ask may take where many points are invalid."""

Visit = Callable[[Belief, float], tuple[Batch, Floats]]
"""Roams the space on a guess; the second argument is the part of the ask's looks that is done, 0 to 1. Returns what was
visited, a point perhaps several times, and the guess for each."""


@dataclass(frozen=True)
class LearningOptions:
    """Settings that these searchers have in common.

    Attributes:
        measured: fastest measured points that are scored again at the start of an ask.
        drawn: random points that join them.
        looks: how often the most promising points are scored exactly in an ask.
        examined: points per proposal that these looks take in all.
        own: weight of a guess from the searcher's measurements beside the scores, if it were right everywhere.
        novelty: what a knob's choice is worth that no other proposal has, in deviations of the guesses.
        shared: part of the proposals that sketches share by what was measured of each.
        epsilon: share of proposals picked at random.
        effort: points per ask that go through the score function at most.
    """

    measured: int = 16
    drawn: int = 8
    looks: int = 4
    examined: float = 1.25
    own: float = 1.0
    novelty: float = 0.05
    shared: float = 0.5
    epsilon: float = 0.05
    effort: int = 1024


class LearningSearcher(PointSearcher):
    """Remembers every measurement; subclasses say which points of the space deserve a look."""

    def __init__(self, space: Space, seed: int, options: LearningOptions) -> None:
        super().__init__(space, seed, effort=options.effort, elites=0)
        self._common = options
        self._codes, self._history = Codes(space), History(space)

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember what was measured."""
        super().tell(measurements)
        self._history.take(measurements)

    def state(self) -> dict[str, Any]:
        """As every searcher's, and the measurements."""
        return {**super().state(), "history": self._history.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space or version."""
        super().restore(state)
        self._history.restore(state["history"])

    def _shares(self) -> Floats:
        """By what was measured."""
        return self._memory.tally.shares()

    def _pursue(self, hunt: Hunt, n: int, visit: Visit) -> Ints:
        """Exact looks at the best of what is visited, and the best of these; a binomial few are random."""
        chance = int(self._rng.binomial(n, self._common.epsilon))
        belief = self._look(hunt, n, visit)
        if belief is None:
            return self._complete(hunt, np.zeros(0, dtype=np.int64), n)
        rows = np.flatnonzero(hunt.fresh)
        fresh = hunt.pool.take(rows)
        codes = self._codes.of(fresh)
        value = hunt.mean[rows] + belief.beside(codes) if hunt.opinion else belief.predict(codes)
        return self._complete(hunt, rows[self._diverse(fresh, value, n - chance)], n)

    def _known(self, hunt: Hunt) -> None:
        """Score what is known to be good and a few random points, to see what the scores think of them."""
        fast = self._history.points.take(self._history.fastest(self._common.measured))
        hunt.examine(fast, parents=True)
        hunt.examine(hunt.draw(self._rng, self._common.drawn), drawn=True)

    def _look(self, hunt: Hunt, n: int, visit: Visit) -> Belief | None:
        """Look at what is visited until there is enough to choose from; returns the last guess, None without any.

        Where scores tell points apart, there are several looks, and more of them while few points are valid.
        """
        own = from_history(self._codes, self._history)
        belief = believe(self._codes, hunt, own, self._common.own)
        wanted = math.ceil(self._common.examined * n)
        looks = self._common.looks if hunt.opinion else 1
        examined, refused = 0, len(hunt.refused)
        for look in range(MORE_LOOKS * looks):
            left = min(math.ceil(wanted / looks), wanted - examined + len(hunt.refused) - refused)
            if belief is None or left <= 0:
                break
            visited, value = visit(belief, min(look / looks, 1.0))
            rows = hunt.unknown(visited)
            rows = rows[self._diverse(visited.take(rows), value[rows], left)]
            examined += hunt.examine(visited.take(rows))
            if hunt.opinion:
                belief = believe(self._codes, hunt, own, self._common.own)
        return belief

    def _diverse(self, batch: Batch, value: Floats, n: int) -> Ints:
        start = 1.0 - self._rng.random(len(self.space.sketches))
        return diverse(batch, value, n, self._shares(), novelty=self._common.novelty, shared=self._common.shared,
                       start=start)

    def _complete(self, hunt: Hunt, rows: Ints, n: int) -> Ints:
        """``rows``, and random points up to ``n``; where the space has no others, whatever may be proposed."""
        rows = rows[:n]
        if len(rows) < n:
            drawn = np.flatnonzero(hunt.fresh & hunt.drawn)
            spare = hunt.count - len(np.setdiff1d(drawn, rows))
            hunt.fill(self._rng, n - len(rows) + spare)
        rest = np.setdiff1d(np.flatnonzero(hunt.fresh), rows)
        rest = rest[np.argsort(~hunt.drawn[rest], kind="stable")]
        return np.concatenate([rows, rest[:n - len(rows)]])
