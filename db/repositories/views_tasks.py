"""Tasks of jobs: a page of them, their sums and those of their families.

A job may have ten thousand tasks, and its page is looked at twice a second. So the database sums them up, in one pass
over the tasks, whatever their number; which of a task and its alternative counts is what ``tunesmith.alternatives``
defines, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased, defer

from db.models import Batch, Family, JobTask, Record, Round, WorkloadRow
from tunesmith.alternatives import TaskLatency
from tunesmith.states import RoundState

ENDED_ROUNDS = (RoundState.DONE, RoundState.FAILED)
Seconds = sa.ColumnElement[Any]


@dataclass(frozen=True)
class TaskSums:
    """A job's tasks, summed up; latencies in seconds, weighted, over the tunable tasks that have one, and of a task and
    its alternative over the faster one alone.

    ``measured`` counts the tunable tasks with a latency, and those whose first round ended without giving any.
    """

    tasks: int = 0
    tunable: int = 0
    measured: int = 0
    trials: int = 0
    failures: int = 0
    untuned: float | None = None
    best: float | None = None


@dataclass(frozen=True)
class FamilySums:
    """Tasks of one family: latencies in seconds, weighted, untuned of the direct tasks and best of those in use."""

    name: str
    tasks: int
    trials: int
    failures: int
    untuned: float | None
    best: float | None


class _Pairs:
    """Tasks of jobs, each beside the best of its alternatives and beside the direct task that it may stand in for."""

    def __init__(self, job_ids: Collection[str]) -> None:
        self.other = (
            sa.select(JobTask.job_id, JobTask.alternative_of, sa.func.min(JobTask.best_seconds).label("best"))
            .where(JobTask.job_id.in_(job_ids), JobTask.alternative_of.is_not(None), JobTask.best_seconds.is_not(None))
            .group_by(JobTask.job_id, JobTask.alternative_of)
            .subquery()
        )
        self.direct = aliased(JobTask)
        self.is_direct = JobTask.alternative_of.is_(None)

    def join(self, query: Any) -> Any:
        """``query`` over the tasks with both of them at hand."""
        other, direct = self.other, self.direct
        same = sa.and_(other.c.job_id == JobTask.job_id, other.c.alternative_of == JobTask.workload_hash)
        stood_for = sa.and_(direct.job_id == JobTask.job_id, direct.workload_hash == JobTask.alternative_of)
        return query.outerjoin(other, same).outerjoin(direct, stood_for)

    @property
    def best(self) -> Seconds:
        """Latency of the faster schedule that was found for a place of the model."""
        return _least(JobTask.best_seconds, self.other.c.best)

    @property
    def in_use(self) -> sa.ColumnElement[bool]:
        """Whether the model runs the task as things stand, see :func:`tunesmith.alternatives.in_use`."""
        own = _least(JobTask.best_seconds, JobTask.untuned_seconds)
        beaten = sa.and_(self.other.c.best.is_not(None), sa.or_(own.is_(None), self.other.c.best < own))
        rival = _least(self.direct.best_seconds, self.direct.untuned_seconds)
        beats = sa.and_(
            self.direct.id.is_not(None), JobTask.best_seconds.is_not(None),
            sa.or_(rival.is_(None), JobTask.best_seconds < rival),
        )  # fmt: skip
        return sa.case((self.is_direct, sa.not_(beaten)), else_=beats)

    @property
    def current(self) -> Seconds:
        """Latency in use of the task itself; of an alternative that of a schedule found for it."""
        own = _least(JobTask.best_seconds, JobTask.untuned_seconds)
        return sa.case((self.is_direct, own), else_=JobTask.best_seconds)


def _least(a: Any, b: Any) -> Seconds:
    """The smaller of two, of which either may be NULL."""
    return sa.case((a < b, a), else_=sa.func.coalesce(b, a))


def sums(session: Session, job_ids: Collection[str]) -> dict[str, TaskSums]:
    """The sums over each job's tasks. One counts as measured where its alternative or direct task has a schedule:
    the model's latency is known then."""
    pairs = _Pairs(job_ids)
    ended = sa.exists().where(Round.job_task_id == JobTask.id, Round.state.in_(ENDED_ROUNDS))
    measured = sa.and_(
        JobTask.tunable,
        sa.or_(
            JobTask.untuned_seconds.is_not(None), JobTask.best_seconds.is_not(None), pairs.other.c.best.is_not(None),
            pairs.direct.best_seconds.is_not(None), ended,
        ),
    )  # fmt: skip
    counts = sa.and_(JobTask.tunable, pairs.is_direct)
    now = JobTask.weight * _least(pairs.best, JobTask.untuned_seconds)
    before = JobTask.weight * sa.func.coalesce(JobTask.untuned_seconds, pairs.best)
    query: Any = sa.select(
        JobTask.job_id,
        sa.func.count(),
        sa.func.sum(sa.case((JobTask.tunable, 1), else_=0)),
        sa.func.sum(sa.case((measured, 1), else_=0)),
        sa.func.sum(JobTask.trials),
        sa.func.sum(JobTask.failures),
        sa.func.sum(sa.case((counts, before))),
        sa.func.sum(sa.case((counts, now))),
    )
    query = pairs.join(query).where(JobTask.job_id.in_(job_ids)).group_by(JobTask.job_id)
    return {
        job: TaskSums(number, int(tunable), int(done), int(trials), int(failures), untuned, best)
        for job, number, tunable, done, trials, failures, untuned, best in session.execute(query)
    }


def families(session: Session, job_id: str) -> list[FamilySums]:
    """The sums over each family of a job, in the order in which the model has them."""
    pairs = _Pairs([job_id])
    name: Any = sa.func.coalesce(sa.func.nullif(Family.name, ""), WorkloadRow.family)
    query: Any = sa.select(
        name,
        sa.func.count(),
        sa.func.sum(JobTask.trials),
        sa.func.sum(JobTask.failures),
        sa.func.sum(sa.case((pairs.is_direct, JobTask.weight * JobTask.untuned_seconds))),
        sa.func.sum(sa.case((pairs.in_use, JobTask.weight * pairs.current))),
    ).select_from(JobTask)
    query = pairs.join(query).join(WorkloadRow, JobTask.workload_hash == WorkloadRow.hash)
    query = query.outerjoin(Family, JobTask.family_id == Family.id).where(JobTask.job_id == job_id)
    query = query.group_by(name).order_by(sa.func.min(JobTask.position), sa.func.min(JobTask.id))
    return [FamilySums(found, number, int(trials), int(failures), untuned, best)
            for found, number, trials, failures, untuned, best in session.execute(query)]


def tasks(
    session: Session, job_id: str, *, after: tuple[int, int] | None = None, limit: int | None = None
) -> Sequence[tuple[JobTask, WorkloadRow, str | None]]:
    """A job's tasks with workload and family name, in the model's order; ``after``: position and id of the last of the
    page before."""
    query = (
        sa.select(JobTask, WorkloadRow, Family.name)
        .join(WorkloadRow, JobTask.workload_hash == WorkloadRow.hash)
        .outerjoin(Family, JobTask.family_id == Family.id)
        .where(JobTask.job_id == job_id)
        .options(defer(JobTask.searcher_state))
    )
    if after is not None:
        query = query.where(sa.tuple_(JobTask.position, JobTask.id) > sa.tuple_(*map(sa.literal, after)))
    found = session.execute(query.order_by(JobTask.position, JobTask.id).limit(limit))
    return [(task, workload, family) for task, workload, family in found]


def rivals(session: Session, job_id: str, rows: Iterable[JobTask]) -> dict[int, TaskLatency[int]]:
    """What some tasks of a job contribute to the latency of its model, and what those do that contend with them for
    their places, by id."""
    page = list(rows)
    direct = [task.alternative_of for task in page if task.alternative_of is not None]
    query: Any = sa.select(JobTask).where(JobTask.job_id == job_id).options(defer(JobTask.searcher_state))
    contend = sa.or_(
        JobTask.workload_hash.in_(direct),
        JobTask.alternative_of.in_([*direct, *(task.workload_hash for task in page if task.alternative_of is None)]),
    )  # fmt: skip
    known = {task.id for task in page}
    return latencies([*page, *(task for task in session.scalars(query.where(contend)) if task.id not in known)])


def latencies(tasks: Iterable[JobTask]) -> dict[int, TaskLatency[int]]:
    """What the tasks of one job contribute to the latency of its model, by id."""
    rows = list(tasks)
    ids: dict[str | None, int] = {task.workload_hash: task.id for task in rows}
    return {
        task.id: TaskLatency(
            task.weight, task.untuned_seconds, task.best_seconds,
            None if task.alternative_of is None else ids.get(task.alternative_of),
        )
        for task in rows
    }  # fmt: skip


def places(session: Session, job_id: str) -> tuple[dict[int, int], dict[int, float]]:
    """Weight and latency before any search, in seconds, of each place of a job's model that has one, by direct task."""
    pairs = _Pairs([job_id])
    start = sa.func.coalesce(JobTask.untuned_seconds, pairs.best)
    query: Any = pairs.join(sa.select(JobTask.id, JobTask.weight, start).select_from(JobTask))
    found = session.execute(query.where(JobTask.job_id == job_id, JobTask.tunable, pairs.is_direct, start.is_not(None)))
    rows = found.all()
    return {key: weight for key, weight, _ in rows}, {key: seconds for key, _, seconds in rows}


def alternatives(session: Session, job_id: str) -> dict[int, int]:
    """Of each alternative among a job's tunable tasks, the direct task that it may stand in for."""
    mine = sa.and_(JobTask.job_id == job_id, JobTask.tunable)
    query = sa.select(JobTask.id, JobTask.alternative_of).where(mine, JobTask.alternative_of.is_not(None))
    found = {key: direct for key, direct in session.execute(query) if direct is not None}
    stood_for = sa.select(JobTask.workload_hash, JobTask.id).where(mine, JobTask.workload_hash.in_(set(found.values())))
    direct_ids = {workload: key for workload, key in session.execute(stood_for)}  # noqa: C416
    return {key: direct_ids[direct] for key, direct in found.items() if direct in direct_ids}


def known(session: Session, job_id: str) -> list[tuple[int, float]]:
    """Tunable tasks of which earlier jobs left a champion, and its latency in seconds, in the model's order."""
    query: Any = sa.select(JobTask.id, JobTask.known_seconds).order_by(JobTask.position, JobTask.id)
    query = query.where(JobTask.job_id == job_id, JobTask.tunable, JobTask.known_seconds.is_not(None))
    return [(key, seconds) for key, seconds in session.execute(query) if seconds is not None]


def learners(session: Session, job_id: str) -> Sequence[Any]:
    """What the learning curves of a job's tunable tasks in use need, in the model's order: ``id, weight, flops, family,
    untuned_seconds, best_seconds, known_seconds, trials, exhausted``."""
    pairs = _Pairs([job_id])
    family = sa.func.coalesce(sa.func.nullif(Family.name, ""), WorkloadRow.family).label("family")
    query: Any = sa.select(
        JobTask.id, JobTask.weight, WorkloadRow.flops, family, JobTask.untuned_seconds, JobTask.best_seconds,
        JobTask.known_seconds, JobTask.trials, JobTask.exhausted,
    ).select_from(JobTask)
    query = pairs.join(query).join(WorkloadRow, JobTask.workload_hash == WorkloadRow.hash)
    query = query.outerjoin(Family, JobTask.family_id == Family.id)
    query = query.where(JobTask.job_id == job_id, JobTask.tunable, pairs.in_use)
    return session.execute(query.order_by(JobTask.position, JobTask.id)).all()


def champions(session: Session, job_id: str, tasks: Collection[int]) -> dict[int, Record]:
    """Records of the best candidates of some of a job's tasks, by task."""
    query: Any = sa.select(JobTask.id, Record).join(Record, JobTask.best_record_id == Record.id)
    found = session.execute(query.where(JobTask.job_id == job_id, JobTask.id.in_(tasks)))
    return {task: record for task, record in found}  # noqa: C416  (rows are no pairs to mypy)


def baselines(session: Session, job_id: str, tasks: Collection[int] | None = None) -> dict[int, Record]:
    """Records of the default schedules that ran, by task; of all of a job's tasks, or of some."""
    first = sa.select(Batch.id).join(Round, Batch.round_id == Round.id).where(Round.job_id == job_id, Round.baseline)
    if tasks is not None:
        first = first.where(Round.job_task_id.in_(tasks))
    query: Any = sa.select(Record).where(
        Record.batch_id.in_(first), Record.sketch_hash.is_(None), Record.latency.is_not(None)
    )
    return {row.job_task_id: row for row in session.scalars(query.order_by(Record.id)) if row.job_task_id is not None}
