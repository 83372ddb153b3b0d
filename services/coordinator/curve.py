"""From the history of tasks to the estimated latency of their model. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from tunesmith.alternatives import TaskLatency, places

Point = TypeVar("Point")
MAX_POINTS = 500


def best_so_far(tasks: Mapping[int, TaskLatency[int]], steps: Iterable[tuple[int, float | None]]) -> Iterator[float]:
    """Latency of the model after each step: sum of weight times best over the places with a latency.

    A step of an alternative improves the place of its direct task, once it is faster than that.

    Args:
        tasks: by id; those without any latency are left out of every sum, so that the curve never rises.
        steps: task and its best latency after each finished round, in order.
    """
    standing = places(tasks)
    current = {key: place.start for key, place in standing.items() if place.known}
    total = sum(standing[key].weight * value for key, value in current.items())
    for task, best in steps:
        key = tasks[task].alternative_of if task in tasks else None
        key = task if key is None else key
        if best is not None and best < current.get(key, 0.0):
            total -= standing[key].weight * (current[key] - best)
            current[key] = best
        yield total


def down_sample(points: Sequence[Point], limit: int = MAX_POINTS) -> list[Point]:
    """At most ``limit`` points, evenly by position, first and last among them."""
    if len(points) <= limit:
        return list(points)
    last = len(points) - 1
    return [points[round(i * last / (limit - 1))] for i in range(limit)]
