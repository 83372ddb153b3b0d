"""Evolutionary search over schedules, after Ansor (Zheng et al., OSDI 2020) and TVM's MetaSchedule.

A population of the best measured points, the best of earlier asks and random ones evolves by crossover and mutation;
the best points that were never measured are proposed, and a small share at random.

An exact score costs milliseconds of replay and feature extraction. So a draft model of the scores, made anew from
what has them, ranks the thousands of points of an evolution, and only the most promising get an exact score, some at a
time: each look makes the next draft better. What is measured of these depends on how far the scores can be trusted:
see ``tunesmith.search.selection`` and ``tunesmith.search.score_reliability``.

Half of the children, of the looks, of the survivors and of the proposals are shared among the sketches by what was
measured of each: mutation and crossover stay within a sketch, and scores are not trusted alone between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.candidate_pool import CHUNK, CandidatePool
from tunesmith.search.codes import Codes
from tunesmith.search.points import PointSearcher
from tunesmith.search.score_reliability import ScoreReliability
from tunesmith.search.selection import Mix, select
from tunesmith.search.surrogate import of_scores
from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.space.space import Space, concat
from tunesmith.types import Measurement

MORE_LOOKS = 3
"""How many times as many looks an ask may take where many points are invalid."""


@dataclass(frozen=True)
class GeneticOptions:
    """Settings of the evolution.

    Attributes:
        population: children that a draft ranks for each look.
        parents: parents of the children whose sketches are not decided before.
        shared: part of children, looks, survivors and proposals that sketches share by what was measured of each; the
            rest goes to whatever has the best scores.
        looks: how often the most promising children are scored exactly in an ask.
        examined: points per proposal that these looks take in all.
        measured: best measured points to start from.
        survivors: best points of an ask that were not proposed and that the next one starts from.
        drawn: random points that join them; more of them while there is little to start from.
        crossover: share of children with two parents.
        second_mutation: share of children that mutate twice.
        pressure: parents' odds fall by exp(-pressure) from the best to the worst.
        doubt: chance's part in the draft's ranking, in deviations of its guesses.
        epsilon: share of proposals picked at random.
        uncertain: share picked by the deviation of their scores, where these cannot be trusted at all.
        unlike: share picked for being unlike the others, likewise.
        start: trust in scores of which nothing is known, 0 to 1.
        weight: measurements that this counts for.
        elites: measured points to remember.
        effort: points per ask that go through the score function at most.
    """

    population: int = 1024
    parents: int = 128
    shared: float = 0.5
    looks: int = 5
    examined: float = 1.25
    measured: int = 16
    survivors: int = 48
    drawn: int = 8
    crossover: float = 0.3
    second_mutation: float = 0.1
    pressure: float = 10.0
    doubt: float = 0.3
    epsilon: float = 0.05
    uncertain: float = 0.2
    unlike: float = 0.2
    start: float = 0.5
    weight: float = 16.0
    elites: int = 32
    effort: int = 1024


class GeneticSearcher(PointSearcher):
    """Evolves on the scores; without them proposes random points and mutations of the best measured ones."""

    def __init__(self, space: Space, seed: int = 0, options: GeneticOptions = GeneticOptions()) -> None:
        super().__init__(space, seed, effort=options.effort, elites=options.elites)
        self.options = options
        self._codes = Codes(space)
        self._reliability = ScoreReliability(options.start, options.weight)
        self._mix = Mix(options.uncertain, options.unlike)

    @property
    def trust(self) -> float:
        """How far scores can be trusted by now, 0 to 1, see ``tunesmith.search.score_reliability``."""
        return self._reliability.value

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember what was measured, and how well it was foreseen."""
        super().tell(measurements)
        known = self.space.known([m.candidate for m in measurements])
        mine = [m for m, is_point in zip(measurements, known, strict=True) if is_point]
        self._reliability.take(
            self.space.keys(self.space.batch([m.candidate for m in mine])), [m.latency for m in mine]
        )

    def state(self) -> dict[str, Any]:
        """As every searcher's, and what the scores promised."""
        return {**super().state(), "trust": self._reliability.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space or version."""
        super().restore(state)
        self._reliability.restore(state["trust"])

    def _shares(self) -> Floats:
        """By what was measured."""
        return self._memory.tally.shares()

    def _pick(self, pool: CandidatePool, n: int, informed: bool) -> Ints:
        elites = self._memory.elite_batch(self.options.measured)
        if informed:
            pool.examine(concat([elites, self.space.batch(self._reserve)]), parents=True)
            pool.examine(pool.draw(self._rng, self.options.drawn), drawn=True)
            pool.fill(self._rng, CHUNK)
        if not pool.is_informative:
            return self._uninformed(pool, elites, n)
        self._evolve(pool, n)
        rows = self._best(pool, n)
        self._reliability.expect(pool.keys[rows], pool.mean[rows])
        self._survive(pool, rows)
        return rows

    def _survive(self, pool: CandidatePool, proposed: Ints) -> None:
        """The best that were not proposed."""
        order = pool.ranked()
        left = order[pool.fresh[order] & ~np.isin(order, proposed)]
        left = left[self._divide(pool.points.sketch[left], self.options.survivors, self.options.shared)]
        self._reserve = self.space.candidates(pool.points.take(left))

    def _evolve(self, pool: CandidatePool, n: int) -> None:
        """Exact looks at the children that drafts of the scores promise most of; more of them while few are valid."""
        wanted = math.ceil(self.options.examined * n)
        step = math.ceil(wanted / self.options.looks)
        refused, examined = len(pool.refused), 0
        for _ in range(MORE_LOOKS * self.options.looks):
            left = wanted - examined + len(pool.refused) - refused
            if left <= 0:
                return
            examined += self._look(pool, min(step, left))

    def _look(self, pool: CandidatePool, most: int) -> int:
        """Examine the ``most`` promising children of the pool; returns how many there were."""
        children = self._offspring(pool)
        children = children.take(pool.unknown(children))
        if not len(children):
            return 0
        guess = of_scores(self._codes, pool).predict(self._codes.of(children))
        jitter = self.options.doubt * guess.std() * self._rng.gumbel(size=len(guess))
        children = children.take(np.argsort(-guess - jitter, kind="stable"))
        return pool.examine(children.take(self._divide(children.sketch, most, self.options.shared)))

    def _offspring(self, pool: CandidatePool) -> PointBatch:
        """Children of the pool's best points: a part of them shared by the sketches, the others of the best of all."""
        rows = pool.ranked()
        sketch = pool.points.sketch[rows]
        odds = self._memory.tally.shares() * (np.bincount(sketch, minlength=len(self.space.sketches)) > 0)
        shared = round(self.options.shared * self.options.population)
        wanted = self._rng.multinomial(shared, odds / odds.sum())
        families = [(rows[sketch == s], int(wanted[s])) for s in np.flatnonzero(wanted)]
        families.append((rows[: self.options.parents], self.options.population - shared))
        return concat([self._children(pool.points.take(mine), count) for mine, count in families])

    def _children(self, parents: PointBatch, n: int) -> PointBatch:
        """``n`` children of parents sorted best first: crossed, or mutated, or both."""
        a, b = parents.take(self._parents(len(parents), n)), parents.take(self._parents(len(parents), n))
        crossed = self._rng.random(n) < self.options.crossover
        start = np.where(crossed)[0], np.where(~crossed)[0]
        children = self.space.crossover(self._rng, a.take(start[0]), b.take(start[0]))
        mutants = self.space.neighbours(self._rng, a.take(start[1]))
        both = concat([children, mutants])
        repeated = self._rng.random(n) < self.options.second_mutation
        return concat([both.take(~repeated), self.space.neighbours(self._rng, both.take(repeated))])

    def _parents(self, count: int, n: int) -> Ints:
        odds = np.exp(-self.options.pressure * np.arange(count) / count)
        return self._rng.choice(count, size=n, p=odds / odds.sum()).astype(np.int64)

    def _best(self, pool: CandidatePool, n: int) -> Ints:
        """The best fresh points; a binomial few of them replaced by random ones, others by what teaches more."""
        chance = int(self._rng.binomial(n, self.options.epsilon))
        order = pool.ranked()
        left = order[pool.fresh[order]]
        best = select(
            left,
            pool.std,
            self._codes.of(pool.points),
            n - chance,
            self._mix.counts(n - chance, self.trust),
            lambda rows, most: self._divide(pool.points.sketch[rows], most, self.options.shared),
        )
        if len(best) + chance < n or pool.count < n:
            pool.fill(self._rng, n)
        rest = np.setdiff1d(np.flatnonzero(pool.fresh), best)
        rest = self._rng.permutation(rest)
        rest = rest[np.argsort(~pool.drawn[rest], kind="stable")]
        return np.concatenate([best, rest[: n - len(best)]])

    def _uninformed(self, pool: CandidatePool, elites: PointBatch, n: int) -> Ints:
        """Half mutations of the best measured points, half random points; random ones make up for what is missing."""
        if len(elites):
            parents = elites.take(self._parents(len(elites), n))
            pool.examine(self.space.neighbours(self._rng, parents))
        mutants = np.flatnonzero(pool.fresh & ~pool.drawn)[: n // 2]
        pool.fill(self._rng, n + int((pool.fresh & ~pool.drawn).sum()) - len(mutants))
        drawn = np.flatnonzero(pool.fresh & pool.drawn)[: n - len(mutants)]
        spare = np.setdiff1d(np.flatnonzero(pool.fresh), np.concatenate([mutants, drawn]))
        return np.concatenate([mutants, drawn, spare[: n - len(mutants) - len(drawn)]])
