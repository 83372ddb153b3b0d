"""What a job had at each time, told by latencies that were measured after it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tunesmith.types import Candidate

Measured = Mapping[tuple[str, Candidate], float]
"""Seconds by workload and candidate, all of them measured in turn."""


@dataclass(frozen=True)
class Champion:
    """A schedule that became the best of its task.

    Attributes:
        at: seconds since the job began to propose.
        latency: seconds, as the job measured it.
    """

    at: float
    candidate: Candidate
    latency: float


@dataclass(frozen=True)
class TaskHistory:
    """A task of a job.

    Attributes:
        replaces: workload of the direct task that it may stand for.
        default: seconds of the default schedule, as the job measured it; None where it did not.
        given: the schedule that it had before anything was measured.
        champions: oldest first.
    """

    workload: str
    weight: int
    replaces: str | None
    default: float | None
    given: Candidate | None
    champions: tuple[Champion, ...]

    @property
    def candidates(self) -> list[Candidate]:
        """All schedules that it ever had."""
        given = [] if self.given is None else [self.given]
        return list(dict.fromkeys([*given, *(each.candidate for each in self.champions)]))


@dataclass(frozen=True)
class History:
    """A job.

    Attributes:
        prepared: seconds from its submission until it began to propose.
    """

    prepared: float
    tasks: tuple[TaskHistory, ...]

    @property
    def times(self) -> list[float]:
        """When something changed, in seconds since it began to propose."""
        return sorted({0.0, *(each.at for task in self.tasks for each in task.champions)})

    def latency(self, at: float, measured: Measured, *, given: bool) -> float:
        """Seconds of the model with what the job had then; infinity where a default schedule of unknown latency stands.

        At one place of the model a measured schedule goes before one that is not, and of two the one with the lower
        latency by the job's own measurement.

        Args:
            given: schedules count that nobody had measured yet, as in the log that a user would get then.
        """
        had = {task.workload: _had(task, at, measured, given) for task in self.tasks}
        other = {task.replaces: task.workload for task in self.tasks if task.replaces is not None}
        total = 0.0
        for task in self.tasks:
            if task.replaces is not None:
                continue
            places = [found for key in (task.workload, other.get(task.workload)) if key and (found := had[key])]
            stands = math.inf if task.default is None else task.default
            total += task.weight * (min(places)[-1] if places else stands)
        return total

    def reached(self, limit: float, measured: Measured, *, given: bool) -> float | None:
        """Seconds since the job began to propose until the model took no longer than ``limit``; None: never."""
        return next((at for at in self.times if self.latency(at, measured, given=given) <= limit), None)

    def end(self, measured: Measured) -> float:
        """Seconds of the model with what the job ended with."""
        return self.latency(self.times[-1], measured, given=True)


def programs(histories: Iterable[History]) -> dict[str, list[Candidate]]:
    """The schedules that any of some jobs had, by workload."""
    found: dict[str, dict[Candidate, None]] = {}
    for history in histories:
        for task in history.tasks:
            found.setdefault(task.workload, {}).update(dict.fromkeys(task.candidates))
    return {workload: list(candidates) for workload, candidates in found.items()}


def _had(task: TaskHistory, at: float, measured: Measured, given: bool) -> tuple[int, float, float] | None:
    """Whether it was not measured, seconds by the job, and seconds; None for the default schedule."""
    champions = [each for each in task.champions if each.at <= at]
    if champions:
        return 0, champions[-1].latency, measured[task.workload, champions[-1].candidate]
    if given and task.given is not None:
        seconds = measured[task.workload, task.given]
        return 1, seconds, seconds
    return None
