"""What was found out of jobs that have ended: it is kept as long as nothing happens to them.

A list shows fifty jobs whose thousands of tasks are summed up, and a page asks four routes for sums over the same
tasks. Of a job that runs they change with each batch; of one that has ended they stay.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from sqlalchemy.orm import Session

from db.queries.job_versions import Version, changes_of_all, versions
from db.queries.task_columns import TaskColumns
from tunesmith.answers.curves import CurveBody, ForecastBody, RooflineBody
from tunesmith.answers.jobs import JobBody

Found = TypeVar("Found")


class Changes:
    """The newest event that may concern any job; events are looked at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: int | None = None
        self._changed = 0

    def look(self, session: Session) -> tuple[int, int]:
        """Ids of the newest event, and of the newest one that may concern any job."""
        with self._lock:
            seen = self._seen
        newest, changed = changes_of_all(session, seen)
        with self._lock:
            self._seen = max(self._seen or 0, newest)
            self._changed = max(self._changed, changed)
            return newest, self._changed


class _Kept(NamedTuple):
    """``since``: the newest event when it was read."""

    version: Version
    since: int
    found: object


class Ended(Generic[Found]):
    """Something of each job. Threads may share it; nobody changes what it gives.

    Args:
        most: jobs that it is kept of, those that were asked for last.
        changes: what concerns all of them.
    """

    def __init__(self, most: int, changes: Changes) -> None:
        self._most, self._changes, self._lock = most, changes, threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def of(
        self,
        session: Session,
        job_ids: Sequence[str],
        find: Callable[[list[str]], Mapping[str, Found]],
        about: Hashable = None,
    ) -> dict[str, Found]:
        """What is known of jobs, by job; not for a transaction that writes, whose own events are not there yet.

        Args:
            session: only reads.
            job_ids: which jobs.
            find: asked for what is not kept; it may leave jobs out.
            about: what else it depends on.
        """
        newest, changed = self._changes.look(session)
        now = {job: (*version, about) for job, version in versions(session, job_ids).items()}
        known: dict[str, Found] = {}
        with self._lock:
            for job, version in now.items():
                kept = self._kept.get(job)
                if kept is not None and kept.version == version and kept.since >= changed:
                    known[job] = kept.found  # type: ignore[assignment]
                    self._kept.move_to_end(job)
        missing = [job for job in job_ids if job not in known]
        found = find(missing) if missing else {}
        with self._lock:
            for job in found.keys() & now.keys():
                self._kept[job] = _Kept(now[job], newest, found[job])
                self._kept.move_to_end(job)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return {**known, **found}

    def one(self, session: Session, job_id: str, find: Callable[[], Found], about: Hashable = None) -> Found:
        """The same of one job that is there."""
        return self.of(session, [job_id], lambda _: {job_id: find()}, about)[job_id]


@dataclass(frozen=True)
class EndedJobs:
    """What routes say of jobs: bodies, tasks as columns, forecasts, rooflines, and curves of the usual length."""

    changes: Changes = field(default_factory=Changes)
    bodies: Ended[JobBody] = field(init=False)
    tasks: Ended[TaskColumns] = field(init=False)
    forecasts: Ended[ForecastBody] = field(init=False)
    curves: Ended[CurveBody] = field(init=False)
    rooflines: Ended[RooflineBody] = field(init=False)

    def __post_init__(self) -> None:
        """Make them."""
        for name, most in (("bodies", 1000), ("tasks", 8), ("forecasts", 100), ("curves", 30), ("rooflines", 100)):
            object.__setattr__(self, name, Ended(most, self.changes))
