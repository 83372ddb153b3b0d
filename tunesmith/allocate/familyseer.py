"""FamilySeer's foresee rounds around Ansor's gradient (Zhang et al., arXiv 2201.00194, 2022).

Whenever a task had its round, one of its family is tried for a quarter as many candidates, the one with the smallest
gradient: the family's cost model learns from it. Rounds have one size here, so every fifth is a foresee round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunesmith.allocate.base import Choice, TaskView
from tunesmith.allocate.gradient import GradientAllocator
from tunesmith.allocate.warmup import rounds

FORESEEN = 5
"""Every how many rounds one is a foresee round."""


class FamilySeerAllocator(GradientAllocator):
    """As the gradient allocator; every fifth round goes to the last in line of the leader's family."""

    def _next(self, alive: Sequence[TaskView], tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice:
        leader = super()._next(alive, tasks, in_flight)
        if sum(rounds(t, in_flight) for t in tasks) % FORESEEN != FORESEEN - 1:
            return leader
        family = next(t.family for t in alive if t.id == leader.task)
        others = [t.id for t in alive if t.family == family and t.id != leader.task]
        if not others:
            return leader
        last = min(others, key=lambda task: (leader.scores[task], task))
        return Choice(last, leader.scores, f"foresee round of the family {family}")
