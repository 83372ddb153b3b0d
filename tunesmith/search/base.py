"""The searcher's contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tunesmith.space.base import Floats, PointBatch, Scores
from tunesmith.types import Candidate, Measurement

Score = Callable[[PointBatch], Scores]
"""Canonicalises, validates and ranks a batch (higher mean is better; all means equal: valid or not is all it knows)."""

Prior = Callable[[PointBatch], Floats]
"""Estimates the latency of points before anything is measured, cheaply. Seconds, float64 [n]; infinity for points that
are not worth a try, NaN where nothing is known. Its figures rank; they need not be right."""


class Searcher(ABC):
    """Proposes candidates of one space and learns from their measurements.

    Contract, checked by ``tunesmith.testing.searchers.SearcherConformance``:

    - built as ``cls(space, seed=int)``; deterministic under a seed; no I/O, no clock;
    - never proposes what it proposed or learned before, nor what is ``pending``;
    - returns fewer than ``n`` candidates, at last none, when the space is exhausted;
    - ``restore(state())`` on a fresh searcher of the same space gives identical further proposals;
    - ``state()`` is plain JSON.
    """

    @abstractmethod
    def ask(
        self, n: int, pending: Collection[Candidate] = (), score: Score | None = None, prior: Prior | None = None
    ) -> list[Candidate]:
        """Up to ``n`` new candidates.

        Args:
            score: without it every point counts as valid and equally good.
            prior: guides a searcher while nothing is measured, and keeps it from hopeless points.
        """

    @abstractmethod
    def suggest(self, candidates: Sequence[Candidate]) -> None:
        """Candidates that may be good, best first, of which nothing is known here: a bounded share of the next batches
        may be of them. What is no point of the space or invalid is passed over."""

    @abstractmethod
    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Learn from measurements, failures included; they may be of candidates that others proposed."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything that later proposals depend on."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`."""
