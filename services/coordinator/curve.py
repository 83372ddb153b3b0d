"""From the history of tasks to the estimated latency of their model. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Point = TypeVar("Point")
MAX_POINTS = 500


@dataclass(frozen=True)
class TaskLatency:
    """What a task contributes: its weight and the latencies in seconds that are known."""

    weight: float
    untuned: float | None
    best: float | None

    @property
    def known(self) -> bool:
        """True when there is any latency."""
        return self.untuned is not None or self.best is not None

    @property
    def start(self) -> float:
        """Latency before any search; the best one where the default schedule does not run."""
        value = self.untuned if self.untuned is not None else self.best
        return float("inf") if value is None else value


def best_so_far(tasks: Mapping[int, TaskLatency], steps: Iterable[tuple[int, float | None]]) -> Iterator[float]:
    """Latency of the model after each step: sum of weight times best over the tasks with a latency.

    Args:
        tasks: by id; those without any latency are left out of every sum, so that the curve never rises.
        steps: task and its best latency after each finished round, in order.
    """
    current = {key: task.start for key, task in tasks.items() if task.known}
    total = sum(tasks[key].weight * value for key, value in current.items())
    for key, best in steps:
        if best is not None and best < current.get(key, 0.0):
            total -= tasks[key].weight * (current[key] - best)
            current[key] = best
        yield total


def down_sample(points: Sequence[Point], limit: int = MAX_POINTS) -> list[Point]:
    """At most ``limit`` points, evenly by position, first and last among them."""
    if len(points) <= limit:
        return list(points)
    last = len(points) - 1
    return [points[round(i * last / (limit - 1))] for i in range(limit)]
