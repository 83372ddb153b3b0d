"""What searchers share that learn from every measurement: a history, and exact looks at what they find promising.

An exact score costs milliseconds. So a method learns from what is known, roams the space on what it learnt, and only
the most promising points get an exact look, some at a time; each look teaches it more. A few points more than are
wanted are looked at, the best of them are proposed, and a few are random.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.diverse import diverse
from tunesmith.search.remembering import RememberingSearcher
from tunesmith.search.surrogate import Prediction, from_history, predict
from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.space.space import Space

MORE_LOOKS = 3
"""How many times as many looks an ask may take where many points are invalid."""


@dataclass(frozen=True)
class LearningOptions:
    """Settings that these searchers have in common.

    Attributes:
        measured: fastest measured points that are scored again at the start of an ask.
        drawn: random points that join them.
        looks: how often the most promising points are scored exactly in an ask.
        examined: points per proposal that these looks take in all.
        shared: part of looks and proposals that sketches share by what was measured of each.
        epsilon: share of proposals picked at random.
        effort: points per ask that go through the score function at most.
    """

    measured: int = 16
    drawn: int = 8
    looks: int = 4
    examined: float = 1.25
    shared: float = 0.5
    epsilon: float = 0.05
    effort: int = 1024


class LearningSearcher(RememberingSearcher):
    """Remembers every measurement; subclasses learn from them and say which points deserve a look."""

    def __init__(self, space: Space, seed: int, options: LearningOptions) -> None:
        super().__init__(space, seed, effort=options.effort)
        self._common = options

    @abstractmethod
    def _study(self, pool: CandidatePool) -> bool:
        """Learn from what is known when an ask begins; False where that does not tell points apart."""

    @abstractmethod
    def _look(self, pool: CandidatePool, n: int) -> None:
        """Examine what promises most, ``n`` points and more where many are invalid."""

    @abstractmethod
    def _chosen(self, pool: CandidatePool, rows: Ints, n: int) -> Ints:
        """Up to ``n`` of some fresh rows of the pool, now that they were examined."""

    def _shares(self) -> Floats:
        """By what was measured."""
        return self._memory.tally.shares()

    def _pick(self, pool: CandidatePool, n: int, informed: bool) -> Ints:
        if informed:
            fast = self._history.points.take(self._history.fastest(self._common.measured))
            pool.examine(fast, parents=True)
            pool.examine(pool.draw(self._rng, self._common.drawn), drawn=True)
        chance = int(self._rng.binomial(n, self._common.epsilon))
        rows = np.zeros(0, dtype=np.int64)
        if self._study(pool):
            self._look(pool, math.ceil(self._common.examined * n))
            fresh = np.flatnonzero(pool.fresh)
            rows = self._chosen(pool, fresh, n - chance) if len(fresh) else fresh
        return self._complete(pool, rows, n)

    def _complete(self, pool: CandidatePool, rows: Ints, n: int) -> Ints:
        """``rows``, and random points up to ``n``; where the space has no others, whatever may be proposed."""
        if len(rows) < n:
            drawn = np.flatnonzero(pool.fresh & pool.drawn)
            spare = pool.count - len(np.setdiff1d(drawn, rows))
            pool.fill(self._rng, n - len(rows) + spare)
        rest = np.setdiff1d(np.flatnonzero(pool.fresh), rows)
        rest = rest[np.argsort(~pool.drawn[rest], kind="stable")]
        return np.concatenate([rows, rest[: n - len(rows)]])


class ModelSearcher(LearningSearcher):
    """A searcher whose looks follow a model of its own, which each look makes better."""

    @abstractmethod
    def _promising(self, pool: CandidatePool, n: int, done: float) -> PointBatch:
        """Up to ``n`` points to examine, none of them known to the pool; ``done``: part of the ask's looks, 0 to 1."""

    def _revise(self, pool: CandidatePool) -> None:
        """Learn from a look; only called where scores tell points apart."""

    def _look(self, pool: CandidatePool, n: int) -> None:
        looks = self._looks(pool)
        examined, refused = 0, len(pool.refused)
        for look in range(MORE_LOOKS * looks):
            left = min(math.ceil(n / looks), n - examined + len(pool.refused) - refused)
            if left <= 0:
                return
            found = pool.examine(self._promising(pool, left, min(look / looks, 1.0)))
            if not found:
                return
            examined += found
            if pool.is_informative:
                self._revise(pool)

    def _looks(self, pool: CandidatePool) -> int:
        """How many an ask takes: a single one where it would teach nothing."""
        return self._common.looks if pool.is_informative else 1


@dataclass(frozen=True)
class GuessingOptions(LearningOptions):
    """Settings of searchers whose model is a guess of scores.

    Attributes:
        own: weight of a guess from the searcher's measurements next to the scores, if it were right everywhere.
        novelty: what a knob's choice is worth that no other proposal has, in deviations of the guesses.
    """

    own: float = 1.0
    novelty: float = 0.05


class GuessingSearcher(ModelSearcher):
    """Looks at the best of what a method visits on a cheap guess of scores, without scores on one of latencies."""

    def __init__(self, space: Space, seed: int, options: GuessingOptions) -> None:
        super().__init__(space, seed, options)
        self._guessing = options

    @abstractmethod
    def _visit(self, pool: CandidatePool, prediction: Prediction, n: int, done: float) -> tuple[PointBatch, Floats]:
        """Roam the space on a guess, for ``n`` looks.

        Returns:
            what was visited, a point perhaps several times, and how promising each is, higher is better.
        """

    def _study(self, pool: CandidatePool) -> bool:
        self._own = from_history(self._codes, self._history)
        prediction = predict(self._codes, pool, self._own, self._guessing.own)
        if prediction is not None:
            self._prediction = prediction
        return prediction is not None

    def _revise(self, pool: CandidatePool) -> None:
        self._prediction = predict(self._codes, pool, self._own, self._guessing.own) or self._prediction

    def _promising(self, pool: CandidatePool, n: int, done: float) -> PointBatch:
        visited, value = self._visit(pool, self._prediction, n, done)
        rows = pool.unknown(visited)
        return visited.take(rows[self._diverse(visited.take(rows), value[rows], n)])

    def _chosen(self, pool: CandidatePool, rows: Ints, n: int) -> Ints:
        points = pool.points.take(rows)
        value = self._guess(self._prediction, points)
        if pool.is_informative:
            value = pool.mean[rows] + self._prediction.beside(self._codes.of(points))
        return rows[self._diverse(points, value, n)]

    def _guess(self, prediction: Prediction, points: PointBatch) -> Floats:
        """Value of each point, float64 [n]."""
        return prediction.predict(self._codes.of(points))

    def _valued(self, pool: CandidatePool, prediction: Prediction) -> tuple[PointBatch, Floats]:
        """Points that are known exactly and their values on the guess's scale, the best first."""
        points, value = self._history.points, self._history.goodness
        if pool.is_informative:
            finite = np.isfinite(pool.mean)
            points = pool.points.take(finite)
            value = pool.mean[finite] + prediction.beside(self._codes.of(points))
        order = np.argsort(-value, kind="stable")
        return points.take(order), value[order]

    def _diverse(self, batch: PointBatch, value: Floats, n: int) -> Ints:
        start = 1.0 - self._rng.random(len(self.space.sketches))
        return diverse(
            batch, value, n, self._shares(), novelty=self._guessing.novelty, shared=self._common.shared, start=start
        )
