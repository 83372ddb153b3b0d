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
from numpy.typing import NDArray
from sqlalchemy.orm import Session, aliased

from db.models import Family, JobTask, WorkloadRow
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
        family_id: object [tasks], None without one; see :func:`family_names`.
    """

    position: Ints
    known_before: Floats
    exhausted: Bools
    family_id: NDArray[np.object_]

    @property
    def order(self) -> Ints:
        """The rows in the model's order, int64 [tasks]."""
        return np.lexsort((self.ids, self.position))

    def left(self) -> list[tuple[int, float]]:
        """Tunable tasks of which earlier jobs left a champion, and its latency in seconds, in the model's order."""
        rows = self.order[(self.tunable & ~np.isnan(self.known_before))[self.order]]
        return list(zip(self.ids[rows].tolist(), self.known_before[rows].tolist(), strict=True))


_DIRECT = aliased(JobTask)
_NARROW: tuple[Any, ...] = (
    JobTask.id,
    # The unique index of job and workload is the only one that can answer this.
    sa.case((JobTask.alternative_of.is_(None), 0), else_=sa.func.coalesce(
        sa.select(_DIRECT.id)
        .where(_DIRECT.job_id == JobTask.job_id, _DIRECT.workload_hash == JobTask.alternative_of)
        .scalar_subquery(), -1,
    )),
    JobTask.weight, JobTask.untuned_seconds, JobTask.best_seconds, sa.type_coerce(JobTask.tunable, sa.Integer),
    JobTask.trials, JobTask.failures,
)  # fmt: skip
_TYPES = (np.int64, np.int64, np.float64, np.float64, np.float64, np.bool_, np.int64, np.int64)
_DETAILS: tuple[Any, ...] = (
    JobTask.position, JobTask.known_seconds, sa.type_coerce(JobTask.exhausted, sa.Integer), JobTask.family_id,
)  # fmt: skip


def columns(session: Session, job_ids: Sequence[str]) -> Iterator[tuple[str, TaskColumns]]:
    """The tasks of each of the jobs that has any."""
    for some in _portions(session, job_ids):
        query = sa.select(JobTask.job_id, *_NARROW).where(JobTask.job_id.in_(some))
        rows: dict[str, list[Any]] = {}
        for row in session.connection().execute(query).all():
            rows.setdefault(row[0], []).append(row)
        for job in list(rows):
            yield job, TaskColumns(*_arrays(rows.pop(job), (None, *_TYPES)))


def detailed(session: Session, job_id: str) -> DetailedColumns:
    """The tasks of one job."""
    query = sa.select(*_NARROW, *_DETAILS).where(JobTask.job_id == job_id)
    rows = session.connection().execute(query).all()
    return DetailedColumns(*_arrays(rows, (*_TYPES, np.int64, np.float64, np.bool_, np.object_)))


def family_names(session: Session, job_id: str, tasks: DetailedColumns) -> list[str]:
    """Names of the tasks' families; where one has none, its workload's."""
    query: Any = sa.select(Family.id, Family.name).where(Family.job_id == job_id, Family.name != "")
    names: dict[int, str] = dict(session.execute(query).all())
    own: dict[int, str] = {}
    if not set(tasks.family_id.tolist()) <= names.keys():
        query = sa.select(JobTask.id, WorkloadRow.family).join(WorkloadRow, JobTask.workload_hash == WorkloadRow.hash)
        own.update(session.execute(query.where(JobTask.job_id == job_id)).all())
    return [names.get(family) or own[key]
            for key, family in zip(tasks.ids.tolist(), tasks.family_id.tolist(), strict=True)]


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


def _arrays(rows: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """Columns of rows, but for those without a type; None becomes NaN."""
    values = zip(*rows, strict=True) if rows else ((),) * len(types)
    return [np.array(column, dtype=kind) for column, kind in zip(values, types, strict=True) if kind is not None]
