"""Random: any task, each equally likely. What allocation without any thought brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tunesmith.allocate.base import Choice, TaskView
from tunesmith.allocate.warmup import WarmedUpAllocator, rounds


class RandomAllocator(WarmedUpAllocator):
    """Draws one of the tasks; the score is each one's probability."""

    def _next(self, alive: Sequence[TaskView], tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice:
        total = sum(rounds(t, in_flight) for t in tasks)
        chosen = alive[int(np.random.default_rng([self.seed, total]).integers(len(alive)))]
        return Choice(chosen.id, {t.id: 1.0 / len(alive) for t in alive}, "drawn at random")
