"""Random: any task, each equally likely. What allocation without any thought brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tunesmith.allocate.base import Allocator, Choice, TaskView
from tunesmith.allocate.warmup import first_round, open_tasks, rounds


class RandomAllocator(Allocator):
    """Each task once, the most important first; then one drawn at random."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def choose(self, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice | None:
        """See :class:`Allocator`; the score is each task's probability."""
        alive = open_tasks(tasks)
        if not alive:
            return None
        fresh = first_round(alive, in_flight)
        if fresh is not None:
            return fresh
        total = sum(rounds(t, in_flight) for t in tasks)
        chosen = alive[int(np.random.default_rng([self.seed, total]).integers(len(alive)))]
        return Choice(chosen.id, {t.id: 1.0 / len(alive) for t in alive}, "drawn at random")
