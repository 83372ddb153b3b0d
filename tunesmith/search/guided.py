"""Programs near the best known ones, with random jumps: labels where a cost model has to tell good from better.

As Lorien (Yu et al., SoCC 2021) and TenSet (Zheng et al., NeurIPS 2021) sample: what a search would look at, and not
only random programs, of which hardly any is fast.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.search.base import Prior, Score
from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.candidates import around
from tunesmith.search.points import PointSearcher
from tunesmith.space.base import Ints
from tunesmith.space.space import Space
from tunesmith.types import Candidate

TURNS = 4
"""Looks at neighbours in an ask, after which random points take their place."""


@dataclass(frozen=True)
class GuidedOptions:
    """Settings of the sampler.

    Attributes:
        champions: fastest measured points whose neighbours are sampled.
        jumps: share of the samples that are random.
        onward: share of the neighbours that are moved once more, and of these again.
        effort: points per ask that go through the score function at most.
    """

    champions: int = 16
    jumps: float = 0.25
    onward: float = 0.5
    effort: int = 1024


class GuidedSearcher(PointSearcher):
    """Samples neighbours of the fastest measured points; random points until there are any. Knows no ranking."""

    def __init__(self, space: Space, seed: int = 0, options: GuidedOptions = GuidedOptions()) -> None:
        super().__init__(space, seed, effort=options.effort, elites=options.champions)
        self.options = options

    def ask(
        self, n: int, pending: Collection[Candidate] = (), score: Score | None = None, prior: Prior | None = None
    ) -> list[Candidate]:
        """Up to ``n`` new candidates, see :class:`tunesmith.search.base.Searcher`; the prior is left out."""
        return super().ask(n, pending, score)

    def suggest(self, candidates: Sequence[Candidate]) -> None:
        """Pass them over: they are others' guesses."""

    def _pick(self, pool: CandidatePool, n: int, informed: bool) -> Ints:
        champions = self._memory.elite_batch(self.options.champions)
        near = n - int(self._rng.binomial(n, self.options.jumps))
        for _ in range(TURNS if len(champions) else 0):
            left = near - pool.count
            if left <= 0:
                break
            points = around(champions, 2 * left, pool, self._rng, self.options.onward)
            pool.examine(points.take(pool.unknown(points)[:left]))
        pool.fill(self._rng, n)
        return np.flatnonzero(pool.fresh)[:n]
