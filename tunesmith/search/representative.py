"""Programs that stand for all the others: few labels that teach as much as possible.

Some of many random points are chosen, so that each of these has a labelled one near. The chosen ones lie in the middle
of many others, and no two are alike. Where a model predicts, points that it is unsure of count more. After Wei, Iyer
and Bilmes, "Submodularity in Data Subset Selection and Active Learning", ICML 2015. Core sets (Sener and Savarese,
ICLR 2018) bound the largest distance instead of the sum, and so choose outliers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.search.base import Prior, Score
from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.facilities import representatives
from tunesmith.search.memory import ENUMERATE_LIMIT
from tunesmith.search.remembering import RememberingSearcher
from tunesmith.space.base import Ints, PointBatch
from tunesmith.space.space import Space, concat
from tunesmith.types import Candidate


@dataclass(frozen=True)
class RepresentativeOptions:
    """Settings of the sampler.

    Attributes:
        pool: random points that are to be represented, and to be chosen from; all of a small space.
        looked: points per proposal that are examined: some are invalid, and a model may be less sure of others.
        effort: points per ask that go through the score function at most.
    """

    pool: int = 2048
    looked: float = 4.0
    effort: int = 1024


class RepresentativeSearcher(RememberingSearcher):
    """Chooses by decisions, and by how unsure a model's scores are. Which of them are good does not matter."""

    def __init__(self, space: Space, seed: int = 0, options: RepresentativeOptions = RepresentativeOptions()) -> None:
        super().__init__(space, seed, effort=options.effort)
        self.options = options
        self._under_way = space.batch([])

    def ask(
        self, n: int, pending: Collection[Candidate] = (), score: Score | None = None, prior: Prior | None = None
    ) -> list[Candidate]:
        """Up to ``n`` new candidates, see :class:`tunesmith.search.base.Searcher`; the prior is left out."""
        known = self.space.known(list(pending))
        mine = sorted((c for c, is_point in zip(pending, known, strict=True) if is_point), key=str)
        self._under_way = self.space.batch(mine)
        return super().ask(n, pending, score)

    def suggest(self, candidates: Sequence[Candidate]) -> None:
        """Pass them over: what is fast is not asked for."""

    def _pick(self, pool: CandidatePool, n: int, informed: bool) -> Ints:
        taken = self._codes.of(concat([self._history.points, self._under_way]))
        points = self._drawn(pool)
        looked = round(self.options.looked * n)
        order = representatives(self._codes.of(points), taken, looked)
        self._examine(pool, points.take(order), n)
        if (pool.std > 0).any():
            self._examine(pool, points.take(order), looked)
        pool.fill(self._rng, n)
        rows = np.flatnonzero(pool.fresh)
        if len(rows) <= n:
            return rows
        codes, unsure = self._codes.of(pool.points.take(rows)), pool.std[rows]
        return rows[representatives(codes, taken, n, unsure if unsure.any() else None)]

    def _drawn(self, pool: CandidatePool) -> PointBatch:
        """Unknown points: all of a small space, else random ones."""
        if self.space.size <= ENUMERATE_LIMIT:
            points = self.space.at(self._rng.permutation(self.space.size).astype(np.int64))
        else:
            points = self.space.sample(self._rng, self.options.pool)
        return points.take(pool.unknown(points))

    @staticmethod
    def _examine(pool: CandidatePool, points: PointBatch, n: int) -> None:
        """Examine points in their order until ``n`` valid ones are pooled."""
        start = 0
        while start < len(points) and pool.count < n:
            step = n - pool.count
            pool.examine(points.take(slice(start, start + step)), drawn=True)
            start += step
