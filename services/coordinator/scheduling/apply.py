"""Carries out a plan. Each action is a compare-and-set: what somebody else has moved on is left alone."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from sqlalchemy.orm import Session

from db import clock
from db.models import Batch, Evaluation, Job, JobTask
from db.queries import by_key, scheduling
from db.transactions import budget_clock, evaluations, events, training
from db.transactions.rounds import open_round
from db.transactions.transitions import transition
from services.coordinator.scheduling import actions as act
from tunesmith.errors import IllegalTransition
from tunesmith.events import JobClockStarted, JobClockStopped
from tunesmith.messages import EvaluateModel, MeasureBatch
from tunesmith.states import OPEN_ROUNDS, JobState, RoundState, WorkState, is_final

log = logging.getLogger(__name__)


def apply(session: Session, actions: Iterable[act.Action]) -> list[str]:
    """Do everything that is asked for; ids of Celery tasks that need not start."""
    revoked: list[str] = []
    for action in actions:
        try:
            with session.begin_nested():
                revoked += _apply(session, action)
        except IllegalTransition as error:
            log.info("left alone: %s (%s)", action, error)
    return revoked


def _apply(session: Session, action: act.Action) -> list[str]:
    job = by_key.find(session, Job, action.job)
    if job is None:
        return []
    if isinstance(action, act.MoveJob):
        _move(session, job, action)
    elif isinstance(action, act.OpenRound):
        _open_round(session, job, action)
    elif isinstance(action, act.CancelRounds):
        return _cancel_rounds(session, job, action.measuring)
    elif isinstance(action, act.CancelEvaluation):
        return _cancel_evaluation(session, job)
    elif isinstance(action, act.StartEvaluation):
        _start_evaluation(session, job, action.device_class)
    elif isinstance(action, act.StartTraining):
        training.enqueue(session, job)
    else:
        budget_clock.set_clock(session, job, action.stopped, clock.now(session))
        said = JobClockStopped if action.stopped else JobClockStarted
        events.append(session, said(job.id), job.id)
    return []


def _move(session: Session, job: Job, action: act.MoveJob) -> None:
    if job.state is not action.old:
        raise IllegalTransition(f"job {job.id} is {job.state.value} by now")
    if action.new is JobState.CANCELLED and _under_way(session, job):
        raise IllegalTransition(f"job {job.id} still has work under way")
    values: dict[str, Any] = {}
    data: dict[str, Any] = {}
    if action.stop_reason is not None:
        values["stop_reason"] = data["stop_reason"] = action.stop_reason
    if action.problem is not None:
        values["error"] = data["problem"] = dict(action.problem)
    if is_final(action.new):
        values["finished_at"] = clock.now(session)
    if action.new is JobState.FINISHING:
        budget_clock.set_clock(session, job, False, clock.now(session))
    transition(session, job, action.new, data=data, **values)


def _under_way(session: Session, job: Job) -> bool:
    """True when cancelling some of the job's work was left alone, because a worker moved it at the same time."""
    evaluation = scheduling.evaluation_of(session, job.id)
    checked = evaluation is not None and not is_final(evaluation.state)
    return checked or bool(scheduling.open_rounds_of(session, job.id, OPEN_ROUNDS))


def _open_round(session: Session, job: Job, action: act.OpenRound) -> None:
    task = by_key.find(session, JobTask, action.task)
    if job.state is not JobState.RUNNING or task is None:
        raise IllegalTransition(f"job {job.id} is {job.state.value} by now")
    open_round(
        session,
        job,
        task,
        number=action.number,
        size=action.size,
        baseline=action.baseline,
        reason=action.reason,
    )


def _cancel_rounds(session: Session, job: Job, measuring: bool) -> list[str]:
    states = OPEN_ROUNDS if measuring else (RoundState.PROPOSING,)
    revoked: list[str] = []
    for round_ in scheduling.open_rounds_of(session, job.id, states):
        now = clock.now(session)
        batch = scheduling.batch_of(session, round_.id)  # before its round: the order in which results lock them
        if batch is not None and not is_final(batch.state):
            transition(session, batch, WorkState.CANCELLED, finished_at=now)
            revoked.append(task_id(MeasureBatch.task, batch))
        transition(session, round_, RoundState.CANCELLED, finished_at=now)
    return revoked


def _cancel_evaluation(session: Session, job: Job) -> list[str]:
    evaluation = scheduling.evaluation_of(session, job.id)
    if evaluation is None or is_final(evaluation.state):
        return []
    transition(session, evaluation, WorkState.CANCELLED, finished_at=clock.now(session))
    return [task_id(EvaluateModel.task, evaluation)]


def _start_evaluation(session: Session, job: Job, device_class: str) -> None:
    if scheduling.evaluation_of(session, job.id) is None:
        evaluations.start(session, job, device_class)


def task_id(task: str, row: Batch | Evaluation) -> str:
    """The Celery id of a piece of work's present attempt."""
    return f"{task}-{row.id}-{row.attempt}"
