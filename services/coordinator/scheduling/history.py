"""A job's finished rounds as allocators see them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from db.repositories import views_jobs


@dataclass(frozen=True)
class History:
    """A job's finished rounds.

    Attributes:
        steps: task and best latency after each, in seconds, in the order in which they finished.
        by_task: the latencies of each task's own ones.
        seconds: that a candidate of the task took on average, in a builder and on the device.
    """

    steps: tuple[tuple[int, float], ...] = ()
    by_task: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    seconds: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Iterable[views_jobs.RoundStep]) -> History:
        """From a job's rounds in the order in which they finished."""
        steps: list[tuple[int, float]] = []
        by_task: dict[int, list[float]] = {}
        took: dict[int, float] = {}
        measured: dict[int, int] = {}
        for step in found:
            steps.append((step.task, math.inf if step.best is None else step.best))
            by_task.setdefault(step.task, []).append(steps[-1][1])
            took[step.task] = took.get(step.task, 0.0) + step.seconds
            measured[step.task] = measured.get(step.task, 0) + step.measured
        return cls(tuple(steps), {task: tuple(best) for task, best in by_task.items()},
                   {task: took[task] / count for task, count in measured.items() if count})


@dataclass
class Histories:
    """Finished rounds by job, read again only when their number has changed."""

    _known: dict[str, tuple[int, History]] = field(default_factory=dict)

    def of(self, session: Session, job_id: str, done: int) -> History:
        """Of a job with ``done`` finished rounds."""
        known = self._known.get(job_id)
        if known is None or known[0] != done:
            known = self._known[job_id] = (done, History.of(views_jobs.finished_rounds(session, job_id)))
        return known[1]

    def keep(self, job_ids: set[str]) -> None:
        """Forget jobs that are over."""
        for job_id in self._known.keys() - job_ids:
            del self._known[job_id]
