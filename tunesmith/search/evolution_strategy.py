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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.draft import Draft
from tunesmith.search.extras import extra
from tunesmith.search.guess import of_history, of_scores
from tunesmith.search.hunt import Hunt
from tunesmith.search.modelled import ModelledOptions, ModelledSearcher
from tunesmith.search.relaxed import Relaxed
from tunesmith.space.base import Batch, Floats, Ints
from tunesmith.space.space import Space, concat

NAME = "evolution-strategy"
WIDE = 0.3
"""Deviation of a strategy that starts anywhere, in widths of the box."""

Fitness = Callable[[Batch], Floats]
"""How good points seem, in deviations of what was measured, higher is better."""


@dataclass(frozen=True)
class EvolutionOptions(ModelledOptions):
    """Settings of the strategy.

    Attributes:
        evaluations: points that the strategies of an ask visit in all.
        population: of a generation; twice as many after each new start.
        elite: best measured points of a sketch whose distribution is the first start.
        around: their least deviation, in widths of the box.
        stale: generations without a point that was not visited before, after which a strategy has converged.
        trust: weight of scores beside what was measured, 0 to 1.
        doubt: chance's part in which visited points get a look, in deviations of what was measured.
        shared: part of visits and proposals that sketches share by what was measured of each.
    """

    evaluations: int = 1200
    population: int = 20
    elite: int = 8
    around: float = 0.15
    stale: int = 3
    trust: float = 0.5
    doubt: float = 0.1
    shared: float = 0.5


class EvolutionStrategySearcher(ModelledSearcher):
    """Measures what evolution strategies arrive at; needs cmaes (extra ``search``).

    Raises:
        MissingDependency: without cmaes.
    """

    def __init__(self, space: Space, seed: int = 0, options: EvolutionOptions = EvolutionOptions()) -> None:
        self._library: Any = extra("cmaes", NAME)
        super().__init__(space, seed, options)
        self.options = options
        self._boxes = [Relaxed(space, s) for s in range(len(space.sketches))]

    def _learn(self, hunt: Hunt, points: Batch, goodness: Floats) -> None:
        self._fitness = self._estimate(hunt)

    def _estimate(self, hunt: Hunt) -> Fitness:
        """What measurements and scores say, drafted where neither is known."""
        ran = np.ptp(self._history.goodness) > 0 if len(self._history) > 1 else False
        measured = self._opinion(of_history(self._codes, self._history), self._history.points,
                                 self._history.goodness) if ran else None
        finite = np.isfinite(hunt.mean)
        scored = self._opinion(of_scores(self._codes, hunt), hunt.pool.take(finite),
                               hunt.mean[finite]) if hunt.opinion else None
        if measured is None or scored is None:
            only = measured or scored
            assert only is not None, "something was measured or has a score"
            return only
        one, other, trust = measured, scored, self.options.trust
        return lambda batch: np.asarray((1.0 - trust) * one(batch) + trust * other(batch))

    def _opinion(self, draft: Draft, points: Batch, values: Floats) -> Fitness:
        """Standardised values of known points, and of others what a draft says."""
        keys = self.space.keys(points)
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        middle, deviation = float(values.mean()), float(values.std()) or 1.0

        def of(batch: Batch) -> Floats:
            own = self.space.keys(batch)
            place = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
            found = np.where(keys[place] == own, values[place], draft.predict(self._codes.of(batch)))
            return np.asarray((found - middle) / deviation)

        return of

    def _promising(self, hunt: Hunt, n: int) -> Batch:
        points, fitness = self._visited(hunt)
        luck = self.options.doubt * self._rng.gumbel(size=len(points))
        points = points.take(np.argsort(-fitness - luck, kind="stable"))
        return points.take(self._divide(points.sketch, n, self.options.shared))

    def _chosen(self, hunt: Hunt, rows: Ints, n: int) -> Ints:
        fitness = self._estimate(hunt) if hunt.opinion else self._fitness
        order = rows[np.argsort(-fitness(hunt.pool.take(rows)), kind="stable")]
        return order[self._divide(hunt.pool.sketch[order], n, self.options.shared)]

    def _visited(self, hunt: Hunt) -> tuple[Batch, Floats]:
        """Unknown points that the strategies of all sketches visited, and their fitness."""
        share = self._memory.tally.shares() * self._memory.left(hunt.blocked)
        counts = (self.options.evaluations * share / (share.sum() or 1.0)).astype(np.int64)
        runs = [self._run(s, int(counts[s])) for s in np.flatnonzero(share).tolist()]
        points = concat([self.space.batch([]), *(batch for batch, _ in runs)])
        fitness = np.concatenate([np.zeros(0), *(found for _, found in runs)])
        new = hunt.unknown(points)
        return points.take(new), fitness[new]

    def _run(self, sketch: int, evaluations: int) -> tuple[Batch, Floats]:
        """What the strategies of one sketch visit, one after the other, and its fitness."""
        box, population, first = self._boxes[sketch], self.options.population, True
        visited, fitness = [self.space.batch([])], [np.zeros(0)]
        if not box.dims:
            only = self.space.all_of(sketch)
            return only, self._fitness(only)
        while evaluations >= population or first:
            strategy = self._strategy(sketch, population, first)
            for points, found in self._generations(box, strategy, max(1, evaluations // population)):
                visited.append(points)
                fitness.append(found)
                evaluations -= population
            population, first = 2 * population, False
        return concat(visited), np.concatenate(fitness)

    def _generations(self, box: Relaxed, strategy: Any, most: int) -> list[tuple[Batch, Floats]]:
        """Points and fitness of each generation until the strategy has converged."""
        out = list[tuple[Batch, Floats]]()
        seen, stale = np.zeros(0, dtype=np.int64), 0
        while len(out) < most and stale < self.options.stale and not (out and strategy.should_stop()):
            asked = [strategy.ask() for _ in range(strategy.population_size)]
            points = box.nearest(np.array([place for place, _ in asked]))
            fitness = self._fitness(points)
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
        best = self._history.points.take(fast[self._history.points.sketch[fast] == sketch][:self.options.elite])
        if first and len(best):
            mean, deviation, covariance = self._library.get_warm_start_mgd(
                [(place, 0.0) for place in box.place(best)], gamma=1.0, alpha=self.options.around)
        return self._library.CMAwM(
            np.clip(mean, 0.0, 1.0), deviation, np.tile([0.0, 1.0], (box.dims, 1)), box.steps,
            seed=int(self._rng.integers(2**31)), population_size=population, cov=covariance)
