"""Parallel simulated annealing on a guess of the scores, after AutoTVM.

Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018: many walkers move to neighbours, always to better
ones and to worse ones with the odds exp(difference / temperature) (Kirkpatrick et al., "Optimization by Simulated
Annealing", 1983). The temperature falls during an ask, and where the walkers end the next one goes on. The best of all
visited points are looked at and proposed, chosen so that they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.learning import GuessingOptions, GuessingSearcher
from tunesmith.search.surrogate import Prediction
from tunesmith.space.base import Floats, PointBatch
from tunesmith.space.space import Space, concat
from tunesmith.types import Candidate


@dataclass(frozen=True)
class AnnealingOptions(GuessingOptions):
    """Settings of the annealing.

    Attributes:
        walkers: points that move at once.
        steps: moves of each between two looks; as many as in all looks together where there is a single one.
        hot: temperature at the start of an ask, in deviations of the walkers' guesses.
        cold: at its end.
        renewed: share of the walkers, the worst ones, that start an ask elsewhere: every other one at one of the
            fastest measured points, the others at random.
    """

    walkers: int = 64
    steps: int = 10
    hot: float = 1.0
    cold: float = 0.02
    renewed: float = 0.5


class AnnealingSearcher(GuessingSearcher):
    """Anneals on the guess of scores, without scores on that of latencies; random while neither is known."""

    def __init__(self, space: Space, seed: int = 0, options: AnnealingOptions = AnnealingOptions()) -> None:
        super().__init__(space, seed, options)
        self.options = options
        self._walkers: PointBatch = space.batch([])

    def state(self) -> dict[str, Any]:
        """As every searcher's, and where the walkers are."""
        return {**super().state(), "walkers": [c.to_json() for c in self.space.candidates(self._walkers)]}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space or version."""
        super().restore(state)
        self._walkers = self.space.batch([Candidate.from_json(c) for c in state["walkers"]])

    def _visit(self, pool: CandidatePool, prediction: Prediction, n: int, done: float) -> tuple[PointBatch, Floats]:
        looks = self._looks(pool)
        if not done:
            self._renew(pool, prediction)
        steps = self.options.steps * self.options.looks // looks
        return self._anneal(prediction, done, min(done + 1.0 / looks, 1.0), steps)

    def _renew(self, pool: CandidatePool, prediction: Prediction) -> None:
        """Keep the best walkers; the others start anew."""
        kept = np.argsort(-self._guess(prediction, self._walkers), kind="stable")
        kept = kept[: self.options.walkers - round(self.options.renewed * self.options.walkers)]
        new = self.options.walkers - len(kept)
        fast = self._history.fastest(self.options.measured)
        fast = self._rng.choice(fast, size=new // 2) if len(fast) else fast
        drawn = self.space.sample(self._rng, new - len(fast), pool.share)
        self._walkers = concat([self._walkers.take(kept), self._history.points.take(fast), drawn])

    def _anneal(self, prediction: Prediction, begin: float, end: float, steps: int) -> tuple[PointBatch, Floats]:
        """Everything visited while the ask goes from the part ``begin`` to ``end``, and the guess for each."""
        at, value = self._walkers, self._guess(prediction, self._walkers)
        deviation = float(value.std()) or 1.0
        visited, values = [at], [value]
        for done in np.linspace(begin, end, steps):
            temperature = deviation * (self.options.hot + done * (self.options.cold - self.options.hot))
            moved = self.space.neighbours(self._rng, at)
            found = self._guess(prediction, moved)
            visited.append(moved)
            values.append(found)
            draw = self._rng.exponential(size=len(found))
            accepted = found - value > -temperature * draw
            at = PointBatch(at.sketch, np.where(accepted[:, None], moved.choice, at.choice))
            value = np.where(accepted, found, value)
        self._walkers = at
        return concat(visited), np.concatenate(values)
