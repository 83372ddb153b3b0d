"""What searchers over a numeric space share: memory, randomness, state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tunesmith.search.base import Prior, Score, Searcher
from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.construction import DRAWN, construct
from tunesmith.search.memory import Memory, restore_rng, rng_state
from tunesmith.search.shares import divide
from tunesmith.space.base import Floats, Ints
from tunesmith.space.space import Space
from tunesmith.types import Candidate, Measurement

LEAST = 2
"""Points that must have run for a batch not to be constructed. Of a single one nobody learns where to go on."""
UNALIGNED = 0.125
"""Share of a first batch that is random, the rest being constructed from a prior."""
FEW, FEW_DRAWN = 4, 2048
"""A batch so small is constructed from fewer random points, in half of the time. Moved to neighbours, they end at the
same best estimates."""
SPARE = 3
"""Points constructed for each that is wanted, because some turn out invalid."""
SUGGESTED = 0.25
"""Share of a batch that suggestions may have; one of them at least."""
MAX_SUGGESTIONS = 64
"""Suggestions that wait for their turn at most."""


class PointSearcher(Searcher):
    """A searcher that picks rows of a candidate pool; subclasses say which.

    Until ``LEAST`` points ran, and where there is a prior, the pick is not theirs: points are constructed from it.

    Args:
        space: where to search.
        seed: seed of every random choice.
        effort: points that one ask may put through the score function, however few are valid.
        elites: measured points to remember.
    """

    def __init__(self, space: Space, seed: int, *, effort: int, elites: int) -> None:
        self.space = space
        self._rng = np.random.default_rng(seed)
        self._memory = Memory(space, elites)
        self._effort = effort
        self._suggested: list[Candidate] = []
        # For later asks, best first: what was constructed and not proposed, or what a subclass keeps.
        self._reserve: list[Candidate] = []

    @abstractmethod
    def _pick(self, pool: CandidatePool, n: int, informed: bool) -> Ints:
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
        pool = CandidatePool(self._memory, blocked, score, max(self._effort, n), prior, self._shares())
        rows = self._take_suggested(pool, max(1, int(SUGGESTED * n)))
        if len(rows) < n:
            rows = np.concatenate([rows, self._rows(pool, n - len(rows), score is not None)])
        self._memory.propose(pool.keys[rows])
        return self.space.candidates(pool.points.take(rows))

    def suggest(self, candidates: Sequence[Candidate]) -> None:
        """Propose them soon, see :class:`tunesmith.search.base.Searcher`."""
        known = self.space.known(candidates)
        mine = [c for c, is_point in zip(candidates, known, strict=True) if is_point]
        self._suggested = list(dict.fromkeys([*self._suggested, *mine]))[:MAX_SUGGESTIONS]

    def _take_suggested(self, pool: CandidatePool, most: int) -> Ints:
        """Rows of up to ``most`` suggestions that may be proposed; the rest of the ask only has them as parents."""
        while self._suggested and pool.count < most:
            step = most - pool.count
            pool.examine(self.space.batch(self._suggested[:step]))
            del self._suggested[:step]
        rows = np.flatnonzero(pool.fresh)
        pool.fresh[rows] = False
        return rows

    def _rows(self, pool: CandidatePool, n: int, informed: bool) -> Ints:
        """Constructed points until ``LEAST`` ran, where there is a prior; then what the subclass picks."""
        if pool.prior is not None and self._memory.tally.ran < LEAST:
            return self._constructed(pool, n, pool.prior)
        return self._pick(pool, n, informed)

    def _constructed(self, pool: CandidatePool, n: int, prior: Prior) -> Ints:
        """What the prior thinks best, and a few random points.

        What is not needed at once waits for the next ask, which may come before anything is measured, too.
        """
        wanted = n - int(UNALIGNED * n)
        planned = self.space.batch(self._reserve)
        if len(planned) < wanted:
            planned = construct(self.space, prior, self._rng, SPARE * n, FEW_DRAWN if n <= FEW else DRAWN)
        start = 0
        while start < len(planned) and pool.count < wanted:
            step = wanted - pool.count
            pool.examine(planned.take(slice(start, start + step)))
            start += step
        self._reserve = self.space.candidates(planned.take(slice(start, None)))
        best = np.flatnonzero(pool.fresh)[:wanted]
        pool.fill(self._rng, n)
        rest = np.setdiff1d(np.flatnonzero(pool.fresh), best)
        return np.concatenate([best, rest[: n - len(best)]])

    def _divide(self, sketch: Ints, n: int, shared: float) -> Ints:
        """Positions of ``n`` of some points, best first. The sketches share a part by what was measured of each; the
        rest are the best of the others."""
        start = 1.0 - self._rng.random(len(self.space.sketches))
        mine = divide(self._memory.tally.shares(), sketch, round(shared * n), start)
        rest = np.setdiff1d(np.arange(len(sketch)), mine)[: max(0, n - len(mine))]
        return np.sort(np.concatenate([mine, rest]))

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember what was measured."""
        self._memory.tell(measurements)

    def state(self) -> dict[str, Any]:
        """Memory, reserve, random generator and what waits as plain JSON."""
        reserve, waiting = [[c.to_json() for c in kept] for kept in (self._reserve, self._suggested)]
        return {**self._memory.state(), "reserve": reserve, "suggested": waiting, "rng": rng_state(self._rng)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space or version."""
        self._memory.restore(state)
        restore_rng(self._rng, state["rng"])
        self._reserve = [Candidate.from_json(c) for c in state["reserve"]]
        self._suggested = [Candidate.from_json(c) for c in state["suggested"]]
