"""What it means that a piece of work has failed for good, for each kind of work."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Batch, Evaluation, Job, JobTask, Model, RecordImport, Round
from db.models.work import Work
from db.transactions import results
from db.transactions.default_schedules import keep_default
from db.transactions.transitions import transition
from tunesmith.states import JobState, ModelState, RoundState, WorkState, can_move, is_final


def give_up(session: Session, row: Work, problem: dict[str, Any]) -> None:
    """End ``row`` with ``problem`` and let whatever depends on it know.

    A model is rejected, a job fails, a task whose proposal fails is not proposed for again (and the job fails when
    that leaves it without anything), the missing results of a batch are recorded as abandoned, a failed evaluation
    fails its job, an import of records fails, and a cost model that cannot be trained is merely not there.
    """
    if is_final(row.state):
        return
    if isinstance(row, Model):
        transition(session, row, ModelState.REJECTED, error=problem, data={"problem": problem})
    elif isinstance(row, Job):
        fail_job(session, row, problem)
    elif isinstance(row, Round):
        _fail_round(session, row, problem)
    elif isinstance(row, Batch):
        results.abandon(session, row, problem)
    elif isinstance(row, Evaluation):
        fail_evaluation(session, row, problem)
    elif isinstance(row, RecordImport):
        now = clock.now(session)
        transition(session, row, WorkState.FAILED, error=problem, blob=None, finished_at=now, data={"problem": problem})
    else:
        transition(session, row, WorkState.FAILED, error=problem, data={"problem": problem})


def fail_job(session: Session, job: Job, problem: dict[str, Any]) -> None:
    """End a job with ``problem``, unless it has ended or is being cancelled."""
    if can_move(job.state, JobState.FAILED):
        transition(
            session, job, JobState.FAILED, error=problem, finished_at=clock.now(session), data={"problem": problem}
        )


def fail_evaluation(session: Session, evaluation: Evaluation, problem: dict[str, Any]) -> None:
    """End an evaluation with ``problem``, and its job with it."""
    now = clock.now(session)
    transition(session, evaluation, WorkState.FAILED, error=problem, finished_at=now, data={"problem": problem})
    job = session.get_one(Job, evaluation.job_id)
    if job.state is JobState.FINISHING:
        fail_job(session, job, problem)


def _fail_round(session: Session, round_: Round, problem: dict[str, Any]) -> None:
    now = clock.now(session)
    transition(session, round_, RoundState.FAILED, error=problem, finished_at=now, data={"problem": problem})
    task = session.get_one(JobTask, round_.job_task_id)
    keep_default(session, task, problem)
    left = session.scalar(
        sa.select(sa.func.count())
        .select_from(JobTask)
        .where(JobTask.job_id == round_.job_id, JobTask.tunable, sa.or_(~JobTask.exhausted, JobTask.trials > 0))
    )
    if not left:
        fail_job(session, session.get_one(Job, round_.job_id), problem)
