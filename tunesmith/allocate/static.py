"""Static: rounds in proportion to what each task costs the model before any tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunesmith.allocate.base import Allocator, Choice, TaskView
from tunesmith.allocate.warmup import first_round, importance, open_tasks, rounds


class StaticAllocator(Allocator):
    """Keeps each task's share of the rounds at its share of the FLOPs, times weights, or of the untuned latency where
    that is known of all; what was measured since changes nothing."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def choose(self, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice | None:
        """See :class:`Allocator`; the score is the share a task is to have over the rounds it would have had then."""
        alive = open_tasks(tasks)
        if not alive:
            return None
        fresh = first_round(alive, in_flight)
        if fresh is not None:
            return fresh
        worth = importance(alive)
        total = sum(worth.values()) or 1.0
        scores = {t.id: worth[t.id] / total / (1 + rounds(t, in_flight)) for t in alive}
        best = max(alive, key=lambda t: scores[t.id])
        return Choice(best.id, scores, f"{worth[best.id] / total:.1%} of the model, {rounds(best, in_flight)} rounds")
