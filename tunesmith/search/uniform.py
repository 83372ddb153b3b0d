"""Programs drawn uniformly: each one of a sketch is equally likely, however many decisions spell it.

A replay clamps decisions, such as a place to compute at that a loop nest lacks, so that many points are one program.
Random points therefore are mostly of programs with many spellings. Here only a program's canonical spelling counts.
"""

from __future__ import annotations

from collections.abc import Collection

from tunesmith.search.base import Prior, Score
from tunesmith.search.random import RandomSearcher
from tunesmith.space.base import PointBatch, Scores
from tunesmith.space.space import Space
from tunesmith.types import Candidate


class UniformSearcher(RandomSearcher):
    """Rejects points that are another spelling of a program; sketches have odds by the logarithm of their sizes."""

    def ask(
        self, n: int, pending: Collection[Candidate] = (), score: Score | None = None, prior: Prior | None = None
    ) -> list[Candidate]:
        """Up to ``n`` new candidates, see :class:`tunesmith.search.base.Searcher`."""
        return super().ask(n, pending, None if score is None else as_spelled(self.space, score))


def as_spelled(space: Space, score: Score) -> Score:
    """The score function by which only canonical points are valid."""

    def scored(batch: PointBatch) -> Scores:
        found = score(batch)
        same = space.keys(found.batch) == space.keys(batch)
        return Scores(found.batch, found.mean, found.std, found.valid & same)

    return scored
