"""Tasks of jobs as columns.

A job may have ten thousand tasks, and its page is looked at twice a second. One statement reads them, of one table: no
database can find a slow way through it. Where tasks are joined with tasks, PostgreSQL may take a minute: statistics
from before a job's rows came say that it has none, and then it goes through all of them for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from db import numbers
from db.models import Family, JobTask, WorkloadRow
from db.numbers import Numbers
from tunesmith.columns import LatencyColumns
from tunesmith.space.base import Bools, Floats, Ints

ROWS = 20_000
"""Tasks of several jobs that are held at once, so that a list of large jobs needs no more memory than one of them."""


@dataclass(frozen=True)
class TaskColumns(LatencyColumns):
    """Tasks of one job as the database has them, in no order.

    Attributes:
        tunable: bool [tasks].
        trials, failures: int64 [tasks].
    """

    tunable: Bools
    trials: Ints
    failures: Ints


@dataclass(frozen=True)
class DetailedColumns(TaskColumns):
    """The same with what single pages need.

    Attributes:
        position: in the model, int64 [tasks].
        known_before: latency in seconds of the champion that earlier jobs left, NaN without one, float64 [tasks].
        exhausted: bool [tasks].
        family_id: int64 [tasks], 0 without one; see :func:`family_names`.
    """

    position: Ints
    known_before: Floats
    exhausted: Bools
    family_id: Ints

    @property
    def order(self) -> Ints:
        """The rows in the model's order, int64 [tasks]."""
        return np.lexsort((self.ids, self.position))

    def left(self) -> list[tuple[int, float]]:
        """Tunable tasks of which earlier jobs left a champion, and its latency in seconds, in the model's order."""
        rows = self.order[(self.tunable & ~np.isnan(self.known_before))[self.order]]
        return list(zip(self.ids[rows].tolist(), self.known_before[rows].tolist(), strict=True))


_DIRECT = aliased(JobTask)


_NARROW = (
    Numbers(JobTask.id, np.int64),
    # The unique index of job and workload is the only one that can answer this.
    Numbers(
        sa.case(
            (JobTask.alternative_of.is_(None), 0),
            else_=sa.func.coalesce(
                sa.select(_DIRECT.id)
                .where(_DIRECT.job_id == JobTask.job_id, _DIRECT.workload_hash == JobTask.alternative_of)
                .scalar_subquery(),
                -1,
            ),
        ),
        np.int64,
    ),
    Numbers(JobTask.weight, np.float64),
    Numbers(JobTask.untuned_seconds, np.float64),
    Numbers(JobTask.best_seconds, np.float64),
    Numbers(JobTask.rough_seconds, np.float64),
    Numbers(sa.cast(JobTask.tunable, sa.Integer), np.bool_),
    Numbers(JobTask.trials, np.int64),
    Numbers(JobTask.failures, np.int64),
)


_DETAILS = (
    Numbers(JobTask.position, np.int64),
    Numbers(JobTask.known_seconds, np.float64),
    Numbers(sa.cast(JobTask.exhausted, sa.Integer), np.bool_),
    Numbers(sa.func.coalesce(JobTask.family_id, 0), np.int64),
)


def columns(session: Session, job_ids: Sequence[str]) -> Iterator[tuple[str, TaskColumns]]:
    """The tasks of each of the jobs that has any."""
    for some in _portions(session, job_ids):
        for job, found in numbers.read(session, JobTask.job_id, _NARROW, JobTask.job_id.in_(some)):
            yield job, TaskColumns(*found)


def detailed(session: Session, job_id: str) -> DetailedColumns:
    """The tasks of one job."""
    wanted = (*_NARROW, *_DETAILS)
    nothing = [np.empty(0, dtype=column.kind) for column in wanted]
    found = dict(numbers.read(session, JobTask.job_id, wanted, JobTask.job_id == job_id)).get(job_id, nothing)
    return DetailedColumns(*found)


def family_names(session: Session, job_id: str, tasks: DetailedColumns) -> list[str]:
    """Names of the tasks' families; where one has none, its workload's."""
    query: Any = sa.select(Family.id, Family.name).where(Family.job_id == job_id, Family.name != "")
    names: dict[int, str] = dict(session.execute(query).all())
    own: dict[int, str] = {}
    if not set(tasks.family_id.tolist()) <= names.keys():
        query = sa.select(JobTask.id, WorkloadRow.family).join(WorkloadRow, JobTask.workload_hash == WorkloadRow.hash)
        own.update(session.execute(query.where(JobTask.job_id == job_id)).all())
    return [
        names.get(family) or own[key] for key, family in zip(tasks.ids.tolist(), tasks.family_id.tolist(), strict=True)
    ]


def _portions(session: Session, job_ids: Sequence[str]) -> Iterator[list[str]]:
    """The jobs, as many at a time as have ``ROWS`` tasks together, or one."""
    if len(job_ids) == 1:
        yield list(job_ids)
        return
    query: Any = sa.select(JobTask.job_id, sa.func.count()).where(JobTask.job_id.in_(job_ids)).group_by(JobTask.job_id)
    some: list[str] = []
    held = 0
    for job, number in session.execute(query).all():
        if some and held + number > ROWS:
            yield some
            some, held = [], 0
        some, held = [*some, job], held + number
    if some:
        yield some
