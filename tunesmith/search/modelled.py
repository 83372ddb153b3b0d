"""What searchers share that learn a model of their own from everything measured.

An ask goes: the model is fitted; it names points that promise most, which are examined; of these it picks again, now
that their exact scores are known. A few points more than are wanted get an exact score, and a few are random. Before
anything is measured, and where neither a prior nor scores tell points apart, a first batch covers the space evenly.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.codes import Codes
from tunesmith.search.history import History
from tunesmith.search.hunt import CHUNK, Hunt
from tunesmith.search.memory import ENUMERATE_LIMIT
from tunesmith.search.points import PointSearcher
from tunesmith.search.shares import divide
from tunesmith.space.base import Batch, Floats, Ints
from tunesmith.space.space import Space, concat
from tunesmith.types import Measurement

MORE_LOOKS = 4
"""How often a model may name points in an ask where many are invalid."""
SPREAD = 3
"""Random points for each of a first batch that covers the space."""
TYPICAL = 256
"""Random points whose spread is that of a space."""


@dataclass(frozen=True)
class ModelledOptions:
    """Settings that these searchers have in common.

    Attributes:
        learnt: measurements that the model learns from at most, the fastest half and the newest.
        drawn: random points among which the model chooses; a small space is looked through whole.
        incumbents: best measured points whose neighbours join them.
        neighbours: how many of these neighbours.
        onward: share of the neighbours that are moved once more, and of these again.
        measured: best measured points that get an exact score to compare with.
        examined: points per proposal that get an exact score, where scores tell points apart.
        epsilon: share of proposals picked at random.
        elites: measured points to remember apart from the history.
        effort: points per ask that go through the score function at most.
    """

    learnt: int = 256
    drawn: int = 512
    incumbents: int = 16
    neighbours: int = 768
    onward: float = 0.5
    measured: int = 32
    examined: float = 1.25
    epsilon: float = 0.05
    elites: int = 16
    effort: int = 1024


class ModelledSearcher(PointSearcher):
    """A searcher whose subclass fits a model and says which points it prefers."""

    def __init__(self, space: Space, seed: int, options: ModelledOptions) -> None:
        super().__init__(space, seed, effort=options.effort, elites=options.elites)
        self._common = options
        self._codes = Codes(space)
        self._history = History(space)
        spread = self._codes.of(space.sample(np.random.default_rng(0), TYPICAL)).std(axis=0)
        self._scale = np.where(spread > 0, 1.0 / np.maximum(spread, 1e-9), 0.0) / math.sqrt(max(1, (spread > 0).sum()))

    @abstractmethod
    def _learn(self, hunt: Hunt, points: Batch, goodness: Floats) -> None:
        """Fit the model to points and how good they are, higher is better, not all equal."""

    @abstractmethod
    def _promising(self, hunt: Hunt, n: int) -> Batch:
        """About ``n`` points to examine, none of them known to the hunt."""

    @abstractmethod
    def _chosen(self, hunt: Hunt, rows: Ints, n: int) -> Ints:
        """Up to ``n`` of some rows of the pool, now that they were examined."""

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember what was measured."""
        super().tell(measurements)
        self._history.take(measurements)

    def state(self) -> dict[str, Any]:
        """As every searcher's, and all measurements."""
        return {**super().state(), "history": self._history.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space, version or searcher."""
        super().restore(state)
        if "history" not in state:
            raise ValueError("the state is another searcher's")
        self._history.restore(state["history"])

    def _shares(self) -> Floats:
        """By what was measured."""
        return self._memory.tally.shares()

    def _numbers(self, points: Batch) -> Floats:
        """Codes in which two random points are about the square root of two apart: float64 [n, dims]."""
        return self._codes.of(points) * self._scale

    def _pick(self, hunt: Hunt, n: int, informed: bool) -> Ints:
        if informed:
            hunt.examine(self._history.points.take(self._history.fastest(self._common.measured)), parents=True)
            hunt.fill(self._rng, CHUNK)
        points, goodness = self._observed(hunt)
        if len(points) < 2 or np.ptp(goodness) == 0:
            return self._covering(hunt, n)
        wanted = n - int(self._rng.binomial(n, self._common.epsilon))
        self._learn(hunt, points, goodness)
        self._look(hunt, wanted)
        rows = np.flatnonzero(hunt.fresh if hunt.opinion else hunt.fresh & ~hunt.drawn)
        return self._with_random(hunt, self._chosen(hunt, rows, wanted) if len(rows) else rows, n)

    def _observed(self, hunt: Hunt) -> tuple[Batch, Floats]:
        """Points to learn from and how good they are: what was measured; before anything ran, what has a score."""
        if len(fast := self._history.fastest(self._common.learnt // 2)):
            rest = np.setdiff1d(np.arange(len(self._history)), fast)[-(self._common.learnt - len(fast)):]
            rows = np.union1d(fast, rest)
            return self._history.points.take(rows), self._history.goodness[rows]
        finite = np.isfinite(hunt.mean)
        return hunt.pool.take(finite), hunt.mean[finite]

    def _look(self, hunt: Hunt, wanted: int) -> None:
        """Examine what the model names; where scores tell points apart, a few more than are wanted."""
        goal = math.ceil(self._common.examined * wanted) if hunt.opinion else wanted
        for _ in range(MORE_LOOKS):
            missing = goal - int((hunt.fresh & ~hunt.drawn).sum())
            if missing <= 0 or not hunt.examine(self._promising(hunt, missing)):
                return

    def _with_random(self, hunt: Hunt, best: Ints, n: int) -> Ints:
        """``n`` fresh rows: those given, and random points."""
        missing = n - len(best) - int(np.isin(np.flatnonzero(hunt.fresh & hunt.drawn), best, invert=True).sum())
        if missing > 0:
            hunt.examine(hunt.draw(self._rng, missing), drawn=True)
        hunt.fill(self._rng, n)
        rest = self._rng.permutation(np.setdiff1d(np.flatnonzero(hunt.fresh), best))
        rest = rest[np.argsort(~hunt.drawn[rest], kind="stable")]
        return np.concatenate([best, rest[:n - len(best)]])

    def _covering(self, hunt: Hunt, n: int) -> Ints:
        """Random points far from each other and from what was measured: they show the whole space."""
        points = hunt.draw(self._rng, SPREAD * n)
        points = points.take(hunt.unknown(points))
        near = np.full(len(points), np.inf)
        codes = self._numbers(points)
        for known in self._numbers(self._history.points):
            near = np.minimum(near, ((codes - known) ** 2).sum(axis=1))
        order = list[int]()
        for _ in range(min(len(points), 2 * n)):
            order.append(int(np.argmax(near)))
            near = np.minimum(near, ((codes - codes[order[-1]]) ** 2).sum(axis=1))
            near[order] = -1.0
        points = points.take(np.array(order, dtype=np.int64))
        while len(points) and int((hunt.fresh & ~hunt.drawn).sum()) < n:
            hunt.examine(points.take(slice(0, n)))
            points = points.take(slice(n, None))
        rows = np.flatnonzero(hunt.fresh & ~hunt.drawn)[:n]
        return self._with_random(hunt, rows, n)

    def _candidates(self, hunt: Hunt) -> Batch:
        """Unknown points to choose from: all of a small space, else random ones and neighbours of the best."""
        if self.space.size <= ENUMERATE_LIMIT:
            points = self.space.at(np.arange(self.space.size, dtype=np.int64))
        else:
            points = concat([hunt.draw(self._rng, self._common.drawn), self._around(hunt, self._common.neighbours)])
        return points.take(hunt.unknown(points))

    def _incumbents(self, hunt: Hunt) -> Batch:
        """The best measured points; before anything ran, those with the best scores."""
        fast = self._history.fastest(self._common.incumbents)
        if len(fast):
            return self._history.points.take(fast)
        return hunt.pool.take(hunt.ranked()[:self._common.incumbents])

    def _around(self, hunt: Hunt, n: int, odds: Floats | None = None) -> Batch:
        """Points one or a few moves away from the incumbents.

        Args:
            odds: of each knob of each incumbent to be moved, see ``Space.neighbours``.
        """
        parents = self._incumbents(hunt)
        rows = self._rng.integers(len(parents), size=n)
        wanted = None if odds is None else odds[rows]
        points = self.space.neighbours(self._rng, parents.take(rows), wanted)
        moved = np.arange(n)
        while len(moved := moved[self._rng.random(len(moved)) < self._common.onward]):
            again = self.space.neighbours(self._rng, points.take(moved), None if wanted is None else wanted[moved])
            points.choice[moved] = again.choice
        return points

    def _divide(self, sketch: Ints, n: int, shared: float) -> Ints:
        """Positions of ``n`` of some points, best first: a part that the sketches share, and the best of the others."""
        start = 1.0 - self._rng.random(len(self.space.sketches))
        mine = divide(self._memory.tally.shares(), sketch, round(shared * n), start)
        rest = np.setdiff1d(np.arange(len(sketch)), mine)[:max(0, n - len(mine))]
        return np.sort(np.concatenate([mine, rest]))
