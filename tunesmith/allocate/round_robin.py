"""Round-robin: every task gets as many rounds as any other. The baseline of every comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunesmith.allocate.base import Allocator, Choice, TaskView
from tunesmith.allocate.warmup import open_tasks, rounds


class RoundRobinAllocator(Allocator):
    """Chooses the task with the fewest rounds, under way included; among those the most important one."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def choose(self, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice | None:
        """See :class:`Allocator`; the score is minus the number of rounds."""
        alive = open_tasks(tasks)
        if not alive:
            return None
        scores = {t.id: -float(rounds(t, in_flight)) for t in alive}
        best = max(alive, key=lambda t: scores[t.id])
        return Choice(best.id, scores, f"fewest rounds ({rounds(best, in_flight)})")
