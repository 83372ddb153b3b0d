"""Evolutionary search over schedules, after Ansor (Zheng et al., OSDI 2020) and TVM's MetaSchedule.

A population of the best measured points and random ones evolves for a few generations by crossover and mutation,
ranked by the score function; the best points that were never measured are proposed, and a small share at random.
Exact features cost milliseconds a point, so population and generations are far smaller than MetaSchedule's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tunesmith.search.hunt import CHUNK, Hunt
from tunesmith.search.points import PointSearcher
from tunesmith.space.base import Batch, Ints
from tunesmith.space.space import Space, concat


@dataclass(frozen=True)
class GeneticOptions:
    """Settings of the evolution.

    Attributes:
        population: points per generation.
        generations: how many follow the first population.
        measured: share of the first population taken from the best measured points.
        crossover: share of children with two parents.
        second_mutation: share of children that mutate twice.
        pressure: parents' odds fall by exp(-pressure) from the best to the worst.
        epsilon: share of proposals picked at random.
        elites: measured points to remember.
        effort: points per ask that go through the score function at most.
    """

    population: int = 64
    generations: int = 3
    measured: float = 0.25
    crossover: float = 0.3
    second_mutation: float = 0.3
    pressure: float = 4.0
    epsilon: float = 0.05
    elites: int = 32
    effort: int = 1024


class GeneticSearcher(PointSearcher):
    """Evolves on the scores; without them proposes random points and mutations of the best measured ones."""

    def __init__(self, space: Space, seed: int = 0, options: GeneticOptions = GeneticOptions()) -> None:
        super().__init__(space, seed, effort=options.effort, elites=options.elites)
        self.options = options

    def _pick(self, hunt: Hunt, n: int, informed: bool) -> Ints:
        elites = self._memory.elite_batch(max(1, round(self.options.population * self.options.measured)))
        if informed:
            first = self.space.sample(self._rng, max(self.options.population - len(elites), 1))
            hunt.examine(elites, parents=True)
            hunt.examine(first.take(slice(CHUNK)), drawn=True)
        if hunt.opinion:
            hunt.examine(first.take(slice(CHUNK, None)), drawn=True)
            self._evolve(hunt)
            return self._best(hunt, n)
        return self._uninformed(hunt, elites, n)

    def _evolve(self, hunt: Hunt) -> None:
        for _ in range(self.options.generations):
            rows = hunt.ranked()[:self.options.population]
            hunt.examine(self._children(hunt.pool.take(rows), self.options.population))

    def _children(self, parents: Batch, n: int) -> Batch:
        """``n`` children of parents sorted best first: crossed, or mutated, or both."""
        a, b = parents.take(self._parents(len(parents), n)), parents.take(self._parents(len(parents), n))
        crossed = self._rng.random(n) < self.options.crossover
        start = np.where(crossed)[0], np.where(~crossed)[0]
        children = self.space.crossover(self._rng, a.take(start[0]), b.take(start[0]))
        mutants = self.space.neighbours(self._rng, a.take(start[1]))
        both = concat([children, mutants])
        again = self._rng.random(n) < self.options.second_mutation
        moved = self.space.neighbours(self._rng, both.take(again))
        return concat([both.take(~again), moved])

    def _parents(self, count: int, n: int) -> Ints:
        odds = np.exp(-self.options.pressure * np.arange(count) / count)
        return self._rng.choice(count, size=n, p=odds / odds.sum()).astype(np.int64)

    def _best(self, hunt: Hunt, n: int) -> Ints:
        """The best fresh points, a binomial few of them replaced by random ones."""
        chance = int(self._rng.binomial(n, self.options.epsilon))
        order = hunt.ranked()
        best = order[hunt.fresh[order]][:n - chance]
        if len(best) + chance < n or hunt.count < n:
            hunt.fill(self._rng, n)
        rest = np.setdiff1d(np.flatnonzero(hunt.fresh), best)
        rest = self._rng.permutation(rest)
        rest = rest[np.argsort(~hunt.drawn[rest], kind="stable")]
        return np.concatenate([best, rest[:n - len(best)]])

    def _uninformed(self, hunt: Hunt, elites: Batch, n: int) -> Ints:
        """Half mutations of the best measured points, half random points; random ones make up for what is missing."""
        if len(elites):
            parents = elites.take(self._parents(len(elites), n))
            hunt.examine(self.space.neighbours(self._rng, parents))
        mutants = np.flatnonzero(hunt.fresh & ~hunt.drawn)[:n // 2]
        hunt.fill(self._rng, n + int((hunt.fresh & ~hunt.drawn).sum()) - len(mutants))
        drawn = np.flatnonzero(hunt.fresh & hunt.drawn)[:n - len(mutants)]
        spare = np.setdiff1d(np.flatnonzero(hunt.fresh), np.concatenate([mutants, drawn]))
        return np.concatenate([mutants, drawn, spare[:n - len(mutants) - len(drawn)]])
