"""Random search: valid points, each equally likely within its sketch. The baseline of every comparison."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.search.base import Prior, Score
from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.points import PointSearcher
from tunesmith.space.base import Ints
from tunesmith.space.space import Space
from tunesmith.types import Candidate


@dataclass(frozen=True)
class RandomOptions:
    """Limits of random search: ``effort`` points per ask go through the score function at most."""

    effort: int = 1024


class RandomSearcher(PointSearcher):
    """Ignores the score's ranking, which tells it what is valid, the prior and suggestions."""

    def __init__(self, space: Space, seed: int = 0, options: RandomOptions = RandomOptions()) -> None:
        super().__init__(space, seed, effort=options.effort, elites=0)

    def ask(
        self, n: int, pending: Collection[Candidate] = (), score: Score | None = None, prior: Prior | None = None
    ) -> list[Candidate]:
        """Up to ``n`` new candidates, see :class:`tunesmith.search.base.Searcher`."""
        return super().ask(n, pending, score)

    def suggest(self, candidates: Sequence[Candidate]) -> None:
        """Pass them over: a baseline knows nothing."""

    def _pick(self, pool: CandidatePool, n: int, informed: bool) -> Ints:
        pool.fill(self._rng, n)
        return np.flatnonzero(pool.fresh)[:n]
