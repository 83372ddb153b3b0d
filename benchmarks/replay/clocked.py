"""What a searcher costs besides measurements."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from tunesmith.search.base import Prior, Score, Searcher
from tunesmith.space.base import PointBatch, Scores
from tunesmith.space.space import Space
from tunesmith.types import Candidate, Measurement


class Clocked(Searcher):
    """Another searcher, on a clock of processor time.

    Attributes:
        seconds: spent in asks and tells so far, what the score function took left out.
        proposed: candidates so far.
        scored: points that went through the score function, each counted once, because the service keeps features.
    """

    def __init__(self, searcher: Searcher, space: Space) -> None:
        self._searcher, self._space = searcher, space
        self.seconds, self.proposed = 0.0, 0
        self.scored: set[int] = set()

    def ask(
        self, n: int, pending: Collection[Candidate] = (), score: Score | None = None, prior: Prior | None = None
    ) -> list[Candidate]:
        """As the other's."""

        def scored(batch: PointBatch) -> Scores:
            assert score is not None
            started = time.process_time()
            found = score(batch)
            self.scored.update(self._space.keys(batch).tolist())
            self.seconds -= time.process_time() - started
            return found

        started = time.process_time()
        asked = self._searcher.ask(n, pending, scored if score else None, prior)
        self.seconds += time.process_time() - started
        self.proposed += len(asked)
        return asked

    def suggest(self, candidates: Sequence[Candidate]) -> None:
        """As the other's."""
        self._searcher.suggest(candidates)

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """As the other's."""
        started = time.process_time()
        self._searcher.tell(measurements)
        self.seconds += time.process_time() - started

    def state(self) -> dict[str, Any]:
        """As the other's."""
        return self._searcher.state()

    def restore(self, state: dict[str, Any]) -> None:
        """As the other's."""
        self._searcher.restore(state)
