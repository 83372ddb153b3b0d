"""From the history of tasks to the estimated latency of their model. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tunesmith.alternatives import TaskLatency, places
from tunesmith.columns import LatencyColumns
from tunesmith.space.base import Bools

MAX_POINTS = 500


@dataclass(frozen=True)
class Places:
    """Where schedules are used in a model, by the direct task that belongs there.

    Attributes:
        weight: how often the model runs it.
        start: latency before any search, in seconds; places without one are left out.
        direct: the task that each alternative may replace.
    """

    weight: Mapping[int, float]
    start: Mapping[int, float]
    direct: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, tasks: Mapping[int, TaskLatency[int]]) -> Places:
        """Places of some tasks."""
        known = {key: place for key, place in places(tasks).items() if place.known}
        direct = {
            key: task.alternative_of for key, task in tasks.items() if task.alternative_of is not None and task.improved
        }
        return cls({key: p.weight for key, p in known.items()}, {key: p.start for key, p in known.items()}, direct)

    @classmethod
    def of_columns(cls, tasks: LatencyColumns, some: Bools) -> Places:
        """Places of some of the tasks, bool [tasks]."""
        place = some & tasks.is_direct & ~np.isnan(tasks.start)
        keys, stands = tasks.ids[place].tolist(), some & (tasks.direct > 0) & ~np.isnan(tasks.offered)
        return cls(
            dict(zip(keys, tasks.weight[place].tolist(), strict=True)),
            dict(zip(keys, tasks.start[place].tolist(), strict=True)),
            dict(zip(tasks.ids[stands].tolist(), tasks.direct[stands].tolist(), strict=True)),
        )

    @cached_property
    def total(self) -> float:
        """Latency of the model before any search."""
        return sum(self.weight[key] * value for key, value in self.start.items())


def best_so_far(initial: Places, steps: Iterable[tuple[int, float | None]]) -> Iterator[float]:
    """Latency of the model after each step: sum of weight times best over the places with a latency.

    A step of an alternative improves the place of its direct task, once it is faster than that.

    Args:
        initial: places without any latency are left out of every sum, so that the curve never rises.
        steps: task and its best latency after each finished round, in order.
    """
    current, weight, direct = dict(initial.start), initial.weight, initial.direct
    total = initial.total
    for task, best in steps:
        if best is not None:
            key = direct.get(task, task)
            before = current.get(key, 0.0)
            if best < before:
                total -= weight[key] * (before - best)
                current[key] = best
        yield total


def without_round(initial: Places, before: Collection[int], rounds: Iterable[int]) -> Iterator[int]:
    """How many places no round, and none of their alternatives', has said anything of: at first, and after each round.

    Args:
        before: tasks of which earlier jobs had rounds.
        rounds: the task of each, in order.
    """
    left = set(initial.start) - {initial.direct.get(task, task) for task in before}
    yield len(left)
    for task in rounds:
        left.discard(initial.direct.get(task, task))
        yield len(left)


def sampled(count: int, limit: int = MAX_POINTS) -> Sequence[int]:
    """Which of ``count`` points to keep: at most ``limit``, evenly by position, first and last among them."""
    if count <= limit:
        return range(count)
    last = count - 1
    return [round(i * last / (limit - 1)) for i in range(limit)]
