"""What searchers over a numeric space share: memory, randomness, state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tunesmith.search.base import Prior, Score, Searcher
from tunesmith.search.hunt import Hunt
from tunesmith.search.memory import Memory, restore_rng, rng_state
from tunesmith.space.base import Floats, Ints
from tunesmith.space.space import Space
from tunesmith.types import Candidate, Measurement


class PointSearcher(Searcher):
    """A searcher that picks rows of a hunt's pool; subclasses say which.

    Args:
        space: where to search.
        seed: of every random choice.
        effort: points that one ask may put through the score function, however few are valid.
        elites: measured points to remember.
    """

    def __init__(self, space: Space, seed: int, *, effort: int, elites: int) -> None:
        self.space = space
        self._rng = np.random.default_rng(seed)
        self._memory = Memory(space, elites)
        self._effort = effort

    @abstractmethod
    def _pick(self, hunt: Hunt, n: int, informed: bool) -> Ints:
        """Rows of the pool to propose, all fresh and distinct; ``informed``: a score function is there."""

    def _shares(self) -> Floats | None:
        """What each sketch should have of the draws; None: whatever its size gives it."""
        return None

    def ask(
        self, n: int, pending: Collection[Candidate] = (), score: Score | None = None, prior: Prior | None = None
    ) -> list[Candidate]:
        """Up to ``n`` new candidates, see :class:`tunesmith.search.base.Searcher`."""
        if n < 1:
            return []
        blocked = self._memory.blocked(pending)
        hunt = Hunt(self._memory, blocked, score, max(self._effort, n), prior, self._shares())
        rows = self._pick(hunt, n, score is not None)
        self._memory.propose(hunt.keys[rows])
        return self.space.candidates(hunt.pool.take(rows))

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember what was measured."""
        self._memory.tell(measurements)

    def state(self) -> dict[str, Any]:
        """Memory and random generator as plain JSON."""
        return {**self._memory.state(), "rng": rng_state(self._rng)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space or version."""
        self._memory.restore(state)
        restore_rng(self._rng, state["rng"])
