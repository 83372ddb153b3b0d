"""What a model's tasks contribute to its latency, where two programs contend for one place. Pure.

A task may have an *alternative*: another program that computes the same at the same places of the model, such as
Winograd's algorithm next to a direct convolution. Both are tuned, and the model runs the faster one. An alternative is
run with a schedule that was found for it and beats its own default one, or not at all: nothing replaces its direct task
for the sake of a default schedule, or of what is worse than that.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class TaskLatency(Generic[Key]):
    """What a task contributes: how often the model runs it, and the latencies in seconds that are known.

    Attributes:
        untuned: with the default schedule.
        best: with the best schedule that was found.
        alternative_of: the key of its direct task; None for a direct one.
    """

    weight: float
    untuned: float | None
    best: float | None
    alternative_of: Key | None = None

    @property
    def known(self) -> bool:
        """True when there is any latency."""
        return self.untuned is not None or self.best is not None

    @property
    def start(self) -> float:
        """Latency before any search; the best one where the default schedule does not run."""
        value = self.untuned if self.untuned is not None else self.best
        return float("inf") if value is None else value

    @property
    def current(self) -> float | None:
        """Latency in use: of the best schedule, or of the default one where nothing beats it; an alternative then has
        none."""
        if self.alternative_of is not None and not self.improved:
            return None
        return min((value for value in (self.best, self.untuned) if value is not None), default=None)

    @property
    def improved(self) -> bool:
        """True where a schedule was found that beats the default one."""
        return self.best is not None and (self.untuned is None or self.best < self.untuned)


def in_use(tasks: Mapping[Key, TaskLatency[Key]]) -> set[Key]:
    """The tasks that the model runs as things stand: of each pair the faster one, the direct one unless it is slower.

    An alternative whose direct task is not among ``tasks`` is not in use.
    """
    used = {key for key, task in tasks.items() if task.alternative_of is None}
    for key, task in tasks.items():
        direct = task.alternative_of
        if direct is None or direct not in tasks or task.current is None:
            continue
        other = tasks[direct].current
        if other is None or task.current < other:
            used.discard(direct)
            used.add(key)
    return used


def places(tasks: Mapping[Key, TaskLatency[Key]]) -> dict[Key, TaskLatency[Key]]:
    """What each place of the model contributes, by its direct task: untuned what that has, tuned the faster of a pair.

    Sums over these, and only these, are latencies of the model.
    """
    found = {key: task for key, task in tasks.items() if task.alternative_of is None}
    for task in tasks.values():
        direct = task.alternative_of
        if direct is not None and direct in found:
            bests = [value for value in (found[direct].best, task.current) if value is not None]
            found[direct] = replace(found[direct], best=min(bests, default=None))
    return found
