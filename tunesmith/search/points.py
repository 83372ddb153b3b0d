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

SUGGESTED = 0.25
"""Share of a batch that suggestions may have; one of them at least."""
KEPT = 64
"""Suggestions that wait for their turn at most."""


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
        self._suggested: list[Candidate] = []

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
        rows = self._take_suggested(hunt, max(1, int(SUGGESTED * n)))
        if len(rows) < n:
            rows = np.concatenate([rows, self._pick(hunt, n - len(rows), score is not None)])
        self._memory.propose(hunt.keys[rows])
        return self.space.candidates(hunt.pool.take(rows))

    def suggest(self, candidates: Sequence[Candidate]) -> None:
        """Propose them soon, see :class:`tunesmith.search.base.Searcher`."""
        known = self.space.known(candidates)
        mine = [c for c, is_point in zip(candidates, known, strict=True) if is_point]
        self._suggested = list(dict.fromkeys([*self._suggested, *mine]))[:KEPT]

    def _take_suggested(self, hunt: Hunt, most: int) -> Ints:
        """Rows of up to ``most`` suggestions that may be proposed; the rest of the ask only has them as parents."""
        while self._suggested and hunt.count < most:
            step = most - hunt.count
            hunt.examine(self.space.batch(self._suggested[:step]))
            del self._suggested[:step]
        rows = np.flatnonzero(hunt.fresh)
        hunt.fresh[rows] = False
        return rows

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember what was measured."""
        self._memory.tell(measurements)

    def state(self) -> dict[str, Any]:
        """Memory, random generator and what waits as plain JSON."""
        waiting = [c.to_json() for c in self._suggested]
        return {**self._memory.state(), "rng": rng_state(self._rng), "suggested": waiting}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space or version."""
        self._memory.restore(state)
        restore_rng(self._rng, state["rng"])
        self._suggested = [Candidate.from_json(c) for c in state.get("suggested", [])]
