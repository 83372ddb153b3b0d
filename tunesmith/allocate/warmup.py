"""The order in which tasks are tried for the first time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from tunesmith.allocate.base import Allocator, Choice, TaskView


def rounds(task: TaskView, in_flight: Mapping[int, int]) -> int:
    """Rounds that a task has had or is having."""
    return len(task.history) + in_flight.get(task.id, 0)


def importance(tasks: Sequence[TaskView]) -> dict[int, float]:
    """What each task may cost the model, by id. It is weight times untuned latency where all of those are known, else
    weight times FLOPs, which is comparable between tasks.
    """
    if all(t.untuned is not None for t in tasks):
        return {t.id: t.weight * (t.untuned or 0.0) for t in tasks}
    return {t.id: t.weight * t.flops for t in tasks}


def open_tasks(tasks: Sequence[TaskView]) -> list[TaskView]:
    """The tasks that can still be tuned, most important first; equal ones by id."""
    alive = [t for t in tasks if not t.exhausted]
    rank = importance(alive)
    return sorted(alive, key=lambda t: (-rank[t.id], t.id))


class WarmedUpAllocator(Allocator):
    """Gives each task a first round, the most important first; then whatever a subclass chooses."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def choose(self, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice | None:
        """See :class:`Allocator`; while warming up, the score is the place in the line."""
        alive = [t for t in tasks if not t.exhausted]
        if not alive:
            return None
        fresh = open_tasks([t for t in alive if not rounds(t, in_flight)])
        if fresh:
            return Choice(fresh[0].id, {t.id: float(-i) for i, t in enumerate(fresh)}, "first round of the task")
        return self._next(alive, tasks, in_flight)

    @abstractmethod
    def _next(self, alive: Sequence[TaskView], tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice:
        """The choice once each task had a round; ``alive``: those that are not exhausted, one at least."""
