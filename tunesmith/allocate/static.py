"""Static: rounds in proportion to what each task costs the model before any tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunesmith.allocate.base import Choice, TaskView
from tunesmith.allocate.warmup import WarmedUpAllocator, importance, rounds


class StaticAllocator(WarmedUpAllocator):
    """Keeps each task's share of the rounds at its share of the FLOPs, times weights. Where the untuned latency of all
    is known, it counts instead; later measurements change nothing.

    The score is the share that a task is to have over the rounds that it would have had with this one.
    """

    def _next(self, alive: Sequence[TaskView], tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice:
        worth = importance(alive)
        total = sum(worth.values()) or 1.0
        scores = {t.id: worth[t.id] / total / (1 + rounds(t, in_flight)) for t in alive}
        best = max(alive, key=lambda t: scores[t.id])
        return Choice(best.id, scores, f"{worth[best.id] / total:.1%} of the model, {rounds(best, in_flight)} rounds")
