"""Evolution strategy over relaxed knobs, after Tuna.

Wang et al., "Tuna: A Static Analysis Approach to Optimizing Deep Neural Networks" (2021) runs an evolution strategy on
a static estimate and measures nothing. Here the estimate is what the measurements, and a cost model's scores where
there are some, promise of a point; so an ask is many generations, and what they visited and thought best is measured.

The strategy is CMA-ES with margin (Hamano et al., GECCO 2022), one per sketch, because it moves in the box of one
sketch's knobs: the margin keeps a knob of few choices from freezing. It starts at the distribution of the best measured
points (warm start, Nomura et al., AAAI 2021), so that all it needs to continue are the measurements. Once it has
converged it starts anew somewhere else with twice the population (IPOP, Auger and Hansen, CEC 2005).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.extras import extra
from tunesmith.search.learning import GuessingOptions, GuessingSearcher
from tunesmith.search.relaxed import Relaxed
from tunesmith.search.surrogate import Prediction
from tunesmith.space.base import Floats, PointBatch
from tunesmith.space.space import Space, concat

NAME = "evolution-strategy"
WIDE = 0.3
"""Deviation of a strategy that starts anywhere, in widths of the box."""


@dataclass(frozen=True)
class EvolutionOptions(GuessingOptions):
    """Settings of the strategy.

    Attributes:
        evaluations: points that the strategies of an ask visit in all.
        population: points in a generation; each new start doubles it.
        elite: best measured points of a sketch whose distribution is the first start.
        around: their least deviation, in widths of the box.
        stale: generations without a point that was not visited before, after which a strategy has converged.
    """

    looks: int = 1
    novelty: float = 1.0
    evaluations: int = 1200
    population: int = 20
    elite: int = 8
    around: float = 0.15
    stale: int = 3


class EvolutionStrategySearcher(GuessingSearcher):
    """Measures what evolution strategies arrive at; needs cmaes (extra ``search``).

    Raises:
        MissingDependency: without cmaes.
    """

    def __init__(self, space: Space, seed: int = 0, options: EvolutionOptions = EvolutionOptions()) -> None:
        self._library: Any = extra("cmaes", NAME)
        super().__init__(space, seed, options)
        self.options = options
        self._boxes = [Relaxed(space, s) for s in range(len(space.sketches))]

    def _visit(self, pool: CandidatePool, prediction: Prediction, n: int, done: float) -> tuple[PointBatch, Floats]:
        share = self._memory.tally.shares() * self._memory.left(pool.blocked)
        counts = (self.options.evaluations * share / (share.sum() or 1.0)).astype(np.int64)
        runs = [self._run(prediction, s, int(counts[s])) for s in np.flatnonzero(share).tolist()]
        points = concat([self.space.batch([]), *(batch for batch, _ in runs)])
        return points, np.concatenate([np.zeros(0), *(found for _, found in runs)])

    def _run(self, prediction: Prediction, sketch: int, evaluations: int) -> tuple[PointBatch, Floats]:
        """What the strategies of one sketch visit, one after the other, and its fitness."""
        box, population, first = self._boxes[sketch], self.options.population, True
        visited, fitness = [self.space.batch([])], [np.zeros(0)]
        if not box.dims:
            only = self.space.all_of(sketch)
            return only, self._guess(prediction, only)
        while evaluations >= population or first:
            strategy = self._strategy(sketch, population, first)
            for points, found in self._generations(prediction, box, strategy, max(1, evaluations // population)):
                visited.append(points)
                fitness.append(found)
                evaluations -= population
            population, first = 2 * population, False
        return concat(visited), np.concatenate(fitness)

    def _generations(
        self, prediction: Prediction, box: Relaxed, strategy: Any, most: int
    ) -> list[tuple[PointBatch, Floats]]:
        """Points and fitness of each generation until the strategy has converged."""
        out = list[tuple[PointBatch, Floats]]()
        seen, stale = np.zeros(0, dtype=np.int64), 0
        while len(out) < most and stale < self.options.stale and not (out and strategy.should_stop()):
            asked = [strategy.ask() for _ in range(strategy.population_size)]
            points = box.nearest(np.array([place for place, _ in asked]))
            fitness = self._guess(prediction, points)
            strategy.tell([(raw, -value) for (_, raw), value in zip(asked, fitness.tolist(), strict=True)])
            out.append((points, fitness))
            keys = self.space.keys(points)
            stale = stale + 1 if np.isin(keys, seen).all() else 0
            seen = np.union1d(seen, keys)
        return out

    def _strategy(self, sketch: int, population: int, first: bool) -> Any:
        """A new CMA-ES: first where the best measured points of the sketch are, then anywhere."""
        box = self._boxes[sketch]
        mean, deviation, covariance = self._rng.random(box.dims), WIDE, None
        fast = self._history.fastest(len(self._history))
        best = self._history.points.take(fast[self._history.points.sketch[fast] == sketch][: self.options.elite])
        if first and len(best):
            mean, deviation, covariance = self._library.get_warm_start_mgd(
                [(place, 0.0) for place in box.place(best)], gamma=1.0, alpha=self.options.around
            )
        return self._library.CMAwM(
            np.clip(mean, 0.0, 1.0),
            deviation,
            np.tile([0.0, 1.0], (box.dims, 1)),
            box.steps,
            seed=int(self._rng.integers(2**31)),
            population_size=population,
            cov=covariance,
        )
