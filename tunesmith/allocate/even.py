"""Even: every task gets as many measurements as any other. What a dataset wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunesmith.allocate.base import Allocator, Choice, TaskView

USUAL_ROUND = 16
"""Candidates that a round under way counts as, until its results are in."""


class EvenAllocator(Allocator):
    """Chooses the task with the fewest measurements, those under way included; of equal ones the first."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def choose(self, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice | None:
        """See :class:`Allocator`; the score is minus the number of measurements."""
        scores = {t.id: -float(t.trials + USUAL_ROUND * in_flight.get(t.id, 0)) for t in tasks if not t.exhausted}
        if not scores:
            return None
        best = max(scores, key=lambda task: scores[task])
        return Choice(best, scores, f"fewest measurements ({-scores[best]:.0f})")
