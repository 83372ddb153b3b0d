"""The rows that a piece of work is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Batch, Evaluation, Job, JobTask, Model, ProposalSet, Round, TargetRow, WorkloadRow
from db.queries import models
from tunesmith.dataset.collecting import Collecting
from tunesmith.options import JobOptions
from tunesmith.targets import Target
from tunesmith.types import CacheState, Candidate

Held = TypeVar("Held", Batch, Evaluation)


@dataclass(frozen=True)
class RoundSubject:
    """What a round proposes for, as the database has it while the proposal is made.

    Attributes:
        size: candidates of the round, the default schedule not counted.
        baseline: True where it also measures the default schedule.
        timed: the job has no limit of trials.
        collecting: what a collecting job is asked for; None for one that tunes.
        searcher_state: what the task's searcher left; None before its first proposal.
        told_record_id: the last record that this searcher knows.
        has_champion: the task has a best record.
        answer: the schedule that the task was given without a measurement; None without one.
        cache: where the job's runs of the workload find their arguments.
    """

    size: int
    baseline: bool
    job_id: str
    options: JobOptions
    timed: bool
    collecting: Collecting | None
    task_id: int
    position: int
    workload: str
    family: str
    module_blob: str
    sketches: tuple[str, ...]
    searcher_state: dict[str, Any] | None
    told_record_id: int
    has_champion: bool
    answer: Candidate | None
    target: Target
    target_hash: str
    device_class: str
    cache: CacheState


class BatchParts(NamedTuple):
    """What a batch measures."""

    round: Round
    task: JobTask
    job: Job
    workload: WorkloadRow


def of_round(session: Session, round_id: int) -> RoundSubject:
    """What a round is about. Raises NoResultFound when its job was deleted."""
    round_ = session.get_one(Round, round_id)
    return _subject(session, round_.job_task_id, round_.size, baseline=round_.baseline)


def of_proposals(session: Session, set_id: int, size: int) -> RoundSubject:
    """What a set of ``size`` proposed candidates is about, as if it were a round. Raises NoResultFound like that."""
    return _subject(session, session.get_one(ProposalSet, set_id).job_task_id, size, baseline=False)


def _subject(session: Session, task_id: int, size: int, *, baseline: bool) -> RoundSubject:
    task = session.get_one(JobTask, task_id)
    job = session.get_one(Job, task.job_id)
    target = session.get_one(TargetRow, job.target_hash)
    workload = session.get_one(WorkloadRow, task.workload_hash)
    return RoundSubject(
        size=size,
        baseline=baseline,
        job_id=job.id,
        options=job.options,
        timed=job.budget_trials is None,
        collecting=job.collecting,
        task_id=task.id,
        position=task.position,
        workload=workload.hash,
        family=workload.family,
        module_blob=workload.module_blob,
        sketches=tuple(task.sketches),
        searcher_state=task.searcher_state,
        told_record_id=task.told_record_id,
        has_champion=task.best_record_id is not None,
        answer=_chosen(task),
        target=Target(target.json),
        target_hash=target.hash,
        device_class=target.device_class,
        cache=models.cache_of(session, job, task.workload_hash),
    )


def _chosen(task: JobTask) -> Candidate | None:
    point = (task.answer or {}).get("candidate")
    return None if point is None else Candidate.from_json(point)


def of_batch(session: Session, batch: Batch) -> BatchParts:
    """A batch's parts. Raises NoResultFound when its job was deleted."""
    round_ = session.get_one(Round, batch.round_id)
    task = session.get_one(JobTask, round_.job_task_id)
    job = session.get_one(Job, batch.job_id)
    return BatchParts(round_, task, job, session.get_one(WorkloadRow, task.workload_hash))


def of_evaluation(session: Session, evaluation: Evaluation) -> tuple[Job, Model]:
    """Job and model of an evaluation. Raises NoResultFound when the job was deleted."""
    job = session.get_one(Job, evaluation.job_id)
    return job, session.get_one(Model, job.model_id)


def target_of(session: Session, job: Job) -> TargetRow:
    """The target of a job whose tasks are known."""
    assert job.target_hash is not None, "nothing is measured before the target is known"
    return session.get_one(TargetRow, job.target_hash)


def known_target(session: Session, job: Job) -> TargetRow | None:
    """The target of a job; None while it is not known."""
    return session.get(TargetRow, job.target_hash) if job.target_hash else None


def workload_of(session: Session, batch: Batch) -> WorkloadRow:
    """The workload that a batch measures."""
    query = (
        sa.select(WorkloadRow)
        .join(JobTask, JobTask.workload_hash == WorkloadRow.hash)
        .join(Round, Round.job_task_id == JobTask.id)
        .where(Round.id == batch.round_id)
    )
    return session.scalars(query).one()


def job_id_of(session: Session, kind: type[Held], row_id: int) -> str | None:
    """The job of a batch or an evaluation; None when there is no such row."""
    row = session.get(kind, row_id)
    return row.job_id if row is not None else None
