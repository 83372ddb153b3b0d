"""A job's finished rounds as allocators and the curve see them."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from db.queries import jobs
from db.queries.jobs import RoundStep

OTHERS = 8
"""Jobs that are over and whose rounds are kept for those who look at them."""


@dataclass(frozen=True)
class History:
    """A job's finished rounds.

    Attributes:
        rounds: in the order in which they finished.
        by_task: best latency in seconds after each of a task's own ones, infinite without a valid result.
        spent: seconds that a task's candidates took, in a builder and on the device, and their number.
        ended_before: every round with a smaller id has ended.
    """

    rounds: tuple[RoundStep, ...] = ()
    by_task: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    spent: Mapping[int, tuple[float, int]] = field(default_factory=dict)
    ended_before: int = 0

    def seconds(self, task: int) -> float | None:
        """What a candidate of a task took on average; None before the first."""
        took, count = self.spent.get(task, (0.0, 0))
        return took / count if count else None

    def extended(self, found: Sequence[RoundStep], ended_before: int) -> History:
        """With further rounds, some of which it may have already."""
        known = {step.id for step in self.rounds if step.id >= self.ended_before}
        new = [step for step in found if step.id not in known]
        if self.rounds and new and _order(new[0]) < _order(self.rounds[-1]):  # a slow transaction's round
            return History().extended(sorted([*self.rounds, *new], key=_order), ended_before)
        by_task, spent = dict(self.by_task), dict(self.spent)
        for task, steps in _by_task(new).items():
            took, count = spent.get(task, (0.0, 0))
            by_task[task] = (*by_task.get(task, ()), *(math.inf if step.best is None else step.best for step in steps))
            spent[task] = took + sum(step.seconds for step in steps), count + sum(step.measured for step in steps)
        return History((*self.rounds, *new), by_task, spent, ended_before)


def _order(step: RoundStep) -> tuple[float, int]:
    return step.finished_at.timestamp(), step.id


def _by_task(steps: Iterable[RoundStep]) -> dict[int, list[RoundStep]]:
    found: dict[int, list[RoundStep]] = {}
    for step in steps:
        found.setdefault(step.task, []).append(step)
    return found


class Histories:
    """Finished rounds by job. Only those that have finished since the last look are read; threads may share it."""

    def __init__(self) -> None:
        self._known: dict[str, History] = {}
        self._lock = threading.Lock()

    def of(self, session: Session, job_id: str, done: int | None = None) -> History:
        """History of a job with ``done`` finished rounds at least; they are counted if that is not known."""
        if done is None:
            done = jobs.count_finished(session, job_id)
        with self._lock:
            known = self._known.pop(job_id, History())
            self._known[job_id] = known  # the job looked at last is at the end
        if len(known.rounds) >= done:
            return known
        found = _read(session, job_id, known)
        if len(found.rounds) < done and known.rounds:
            found = _read(session, job_id, History())
        with self._lock:
            if len(found.rounds) >= len(self._known.get(job_id, known).rounds):
                self._known[job_id] = found
        return found

    def keep(self, job_ids: set[str]) -> None:
        """Forget jobs other than these, except for the few that were looked at last."""
        with self._lock:
            for job_id in [key for key in self._known if key not in job_ids][:-OTHERS]:
                del self._known[job_id]


def _read(session: Session, job_id: str, known: History) -> History:
    """``known`` and what has finished since.

    Rounds are opened in the order of their ids. So before the first one that was open at the last look, nothing more
    can finish.
    """
    first_open = jobs.first_open_round(session, job_id)
    found = jobs.finished_rounds(session, job_id, known.ended_before)
    ended = max((step.id + 1 for step in found), default=known.ended_before)
    return known.extended(found, ended if first_open is None else first_open)
