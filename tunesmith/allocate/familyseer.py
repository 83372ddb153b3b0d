"""FamilySeer's foresee rounds around Ansor's gradient (Zhang et al., ICPP 2022).

Whenever a task had its round, one of its family is tried for a quarter as many candidates, the one with the smallest
gradient: the family's cost model learns from it. Rounds have one size here, so every fifth is a foresee round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunesmith.allocate.base import Choice, TaskView
from tunesmith.allocate.gradient import GradientAllocator
from tunesmith.allocate.warmup import open_tasks, rounds

FORESEEN = 5
"""Every how many rounds one is a foresee round."""


class FamilySeerAllocator(GradientAllocator):
    """As the gradient allocator; every fifth round goes to the last in line of the leader's family."""

    def choose(self, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice | None:
        """See :class:`Allocator`; the score is the gradient, or the importance while warming up."""
        leader = super().choose(tasks, in_flight)
        alive = {t.id: t for t in open_tasks(tasks)}
        total = sum(rounds(t, in_flight) for t in tasks)
        if leader is None or total % FORESEEN != FORESEEN - 1 or any(not rounds(t, in_flight) for t in alive.values()):
            return leader
        family = alive[leader.task].family
        others = [t for t in alive.values() if t.family == family and t.id != leader.task]
        if not others:
            return leader
        last = min(others, key=lambda t: (leader.scores[t.id], t.id))
        return Choice(last.id, leader.scores, f"foresee round of the family {family}")
