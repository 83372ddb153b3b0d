"""Tasks of a job: a page of them, and what is around it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session, defer

from db.models import Batch, Family, Job, JobTask, Record, Round, WorkloadRow
from tunesmith.budget import UNMEASURED
from tunesmith.states import OPEN_WORK
from tunesmith.types import Candidate


def pending(session: Session, job_task_id: int) -> set[Candidate]:
    """Candidates of a task that are out for measurement."""
    query = sa.select(Batch.candidates).join(Round, Batch.round_id == Round.id)
    rows = session.scalars(query.where(Round.job_task_id == job_task_id, Batch.state.in_(OPEN_WORK)))
    return {Candidate.from_json(value) for candidates in rows for value in candidates}


def replaced_unmeasured(session: Session, job_id: str) -> set[str]:
    """Workloads of direct tasks whose alternatives have the answer, in a job that measures nothing."""
    query = sa.select(JobTask.alternative_of).join(Job, JobTask.job_id == Job.id)
    query = query.where(Job.id == job_id, Job.budget_trials == UNMEASURED, JobTask.alternative_of.is_not(None))
    return {str(workload) for workload in session.scalars(query.where(JobTask.answer.is_not(None)))}


TaskRow = tuple[JobTask, WorkloadRow, str | None]
"""A task with its workload and its family's name."""


def tasks(
    session: Session,
    job_id: str,
    *,
    after: tuple[int, int] | None = None,
    text: str | None = None,
    limit: int | None = None,
) -> Sequence[TaskRow]:
    """A job's tasks, in the model's order.

    Args:
        after: position and id of the last of the page before.
        text: part of the name, in any case.
    """
    page = sa.select(JobTask.id).where(JobTask.job_id == job_id)
    if after is not None:
        page = page.where(sa.tuple_(JobTask.position, JobTask.id) > after)
    if text:
        page = page.where(JobTask.name.icontains(text, autoescape=True))
    # The page's ids come first: else all tasks of the job are joined, whole, before they are put in order.
    page = page.order_by(JobTask.position, JobTask.id).limit(limit)
    whole = limit is None and after is None and not text
    query = (_rows() if limit is None else _brief()).where(JobTask.job_id == job_id if whole else JobTask.id.in_(page))
    found = session.execute(query.order_by(JobTask.position, JobTask.id))
    return [(task, workload, family) for task, workload, family in found]


def of_ids(session: Session, ids: Sequence[int]) -> Sequence[TaskRow]:
    """The tasks with these ids, in their order."""
    rows = session.execute(_brief().where(JobTask.id.in_(ids)))
    found: dict[int, TaskRow] = {task.id: (task, workload, family) for task, workload, family in rows}
    return [found[key] for key in ids if key in found]


def named(session: Session, job_id: str, text: str) -> set[int]:
    """Ids of a job's tasks with ``text`` in their names, in any case."""
    query = sa.select(JobTask.id).where(JobTask.job_id == job_id, JobTask.name.icontains(text, autoescape=True))
    return set(session.scalars(query))


def names(session: Session, ids: Collection[int]) -> dict[int, str]:
    """Names of tasks by id."""
    query: Any = sa.select(JobTask.id, JobTask.name).where(JobTask.id.in_(ids))
    return dict(session.execute(query).all())


def _rows() -> sa.Select[Any]:
    columns: tuple[Any, ...] = (JobTask, WorkloadRow, Family.name)
    return (
        sa.select(*columns)
        .join(WorkloadRow, JobTask.workload_hash == WorkloadRow.hash)
        .outerjoin(Family, JobTask.family_id == Family.id)
        .options(defer(JobTask.searcher_state), defer(JobTask.sketches))
    )


def _brief() -> sa.Select[Any]:
    """Without the arguments of the workloads, which pages do not show: to parse them takes as long as the rest."""
    return _rows().options(defer(WorkloadRow.args))


def undescribed(session: Session, task: int) -> dict[int, list[Candidate]]:
    """Candidates of a task's batches that lack features, by batch."""
    query = sa.select(Batch.id, Batch.candidates).join(Round, Batch.round_id == Round.id)
    found = session.execute(query.where(Round.job_task_id == task, Batch.features_blob.is_(None)))
    return {id_: [Candidate.from_json(each) for each in candidates] for id_, candidates in found}


def baselines(session: Session, job_id: str, tasks: Collection[int] | None = None) -> dict[int, Record]:
    """Records of the default schedules that ran, by task; of all of a job's tasks, or of some."""
    first = sa.select(Batch.id).join(Round, Batch.round_id == Round.id).where(Round.job_id == job_id, Round.baseline)
    if tasks is not None:
        first = first.where(Round.job_task_id.in_(tasks))
    query: Any = sa.select(Record).where(
        Record.batch_id.in_(first), Record.sketch_hash.is_(None), Record.latency.is_not(None)
    )
    return {row.job_task_id: row for row in session.scalars(query.order_by(Record.id)) if row.job_task_id is not None}


class EvaluatedTask(NamedTuple):
    """What the check of an evaluation needs of a task."""

    workload_hash: str
    alternative_of: str | None
    weight: int
    flops: float


def evaluated(session: Session, job_id: str) -> list[EvaluatedTask]:
    """Every task of a job, with its workload's FLOPs."""
    query = (
        sa.select(JobTask.workload_hash, JobTask.alternative_of, JobTask.weight, WorkloadRow.flops)
        .join(WorkloadRow, WorkloadRow.hash == JobTask.workload_hash)
        .where(JobTask.job_id == job_id)
    )
    return [EvaluatedTask._make(row) for row in session.execute(query)]


class BoundTask(NamedTuple):
    """What the roofline bound of a task is made of."""

    workload_hash: str
    alternative_of: str | None
    weight: int
    flops: float
    family: str
    args: list[Any]


def to_bound(session: Session, job_id: str) -> list[BoundTask]:
    """The tunable tasks of a job, with their workloads' FLOPs and arguments."""
    query = (
        sa.select(
            JobTask.workload_hash,
            JobTask.alternative_of,
            JobTask.weight,
            WorkloadRow.flops,
            WorkloadRow.family,
            WorkloadRow.args,
        )
        .join(WorkloadRow, WorkloadRow.hash == JobTask.workload_hash)
        .where(JobTask.job_id == job_id, JobTask.tunable)
    )
    return [BoundTask._make(row) for row in session.execute(query)]


def workloads(session: Session, job_id: str, hashes: Collection[str]) -> Sequence[WorkloadRow]:
    """Workloads among ``hashes`` that are tasks of a job."""
    query = (
        sa.select(WorkloadRow)
        .join(JobTask, JobTask.workload_hash == WorkloadRow.hash)
        .where(JobTask.job_id == job_id, WorkloadRow.hash.in_(hashes))
    )
    return session.scalars(query).all()
