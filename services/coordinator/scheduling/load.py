"""Reads the snapshot that the planner decides on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from db import clock
from db.models import Evaluation, Job, Model
from db.queries import devices, scheduling
from services.coordinator.scheduling.history import Histories, History
from services.coordinator.scheduling.snapshot import JobSnapshot, Snapshot, TaskSnapshot, TrainingSnapshot
from services.coordinator.usecases.describe import elapsed
from tunesmith.states import OPEN_WORK, JobState, WorkState


def load(session: Session, histories: Histories, device_timeout: float, now: dt.datetime | None = None) -> Snapshot:
    """The snapshot as of ``now``."""
    now = now or clock.now(session)
    slots: dict[str, int] = {}
    for device in devices.measurable(session, device_timeout, now):
        for device_class in device.device_classes:
            slots[device_class] = slots.get(device_class, 0) + 1
    jobs = scheduling.open_jobs(session)
    active = [job.id for job, _, _ in jobs if job.target_hash is not None]
    histories.keep(set(active))
    around = _RowsOfJobs.read(session, active)
    return Snapshot(
        jobs=tuple(
            _job(session, job, model, device_class or "", around, histories, now) for job, model, device_class in jobs
        ),
        slots=slots,
    )


@dataclass
class _RowsOfJobs:
    """Rows around the jobs, grouped."""

    tasks: dict[str, list[scheduling.TaskRow]]
    evaluations: dict[str, Evaluation]
    trainings: dict[str, list[tuple[WorkState, int]]]

    @classmethod
    def read(cls, session: Session, job_ids: list[str]) -> _RowsOfJobs:
        """A fixed number of queries, none without jobs."""
        if not job_ids:
            return cls({}, {}, {})
        tasks: dict[str, list[scheduling.TaskRow]] = {}
        for row in scheduling.tasks(session, job_ids):
            tasks.setdefault(row.job_id, []).append(row)
        return cls(tasks, scheduling.evaluations(session, job_ids), scheduling.trainings(session, job_ids))


def _job(
    session: Session,
    job: Job,
    model: Model,
    device_class: str,
    around: _RowsOfJobs,
    histories: Histories,
    now: dt.datetime,
) -> JobSnapshot:
    tasks = around.tasks.get(job.id, [])
    done = sum(row.rounds.done for row in tasks)
    history = histories.of(session, job.id, done) if done and job.state is JobState.RUNNING else History()
    ids = {row.workload_hash: row.id for row in tasks}
    evaluation = around.evaluations.get(job.id)
    return JobSnapshot(
        id=job.id,
        state=job.state,
        model_state=model.state,
        model_problem=model.error,
        device_class=device_class,
        owner=job.owner,
        options=job.options,
        collecting=job.collecting,
        budget_trials=job.budget_trials,
        budget_seconds=job.budget_seconds,
        stop_when_converged=job.stop_when_converged,
        elapsed=elapsed(job, now),
        clock_stopped=job.paused_at is not None,
        trials_in_flight=sum(row.rounds.trials for row in tasks),
        last_round=max((row.rounds.last for row in tasks), default=0),
        next_number=sum(row.rounds.opened for row in tasks) + 1,
        tasks=tuple(_task(row, job, history, ids) for row in tasks),
        training=_training(tasks, around.trainings.get(job.id, [])),
        compared=model.source != "operator" and device_class.startswith("llvm"),
        evaluation=evaluation.state if evaluation else None,
        evaluation_problem=evaluation.error if evaluation else None,
        stop_reason=job.stop_reason,
    )


def _task(row: scheduling.TaskRow, job: Job, history: History, ids: Mapping[str, int]) -> TaskSnapshot:
    total, direct = row.rounds, row.alternative_of
    return TaskSnapshot(
        id=row.id,
        weight=row.weight,
        flops=row.flops,
        family=row.family,
        tunable=row.tunable,
        exhausted=row.exhausted,
        trials=row.trials,
        useless=row.failures + row.duplicates,
        earlier_labels=row.earlier_labels,
        trials_in_flight=total.trials,
        untuned=row.untuned_seconds,
        best=row.best_seconds,
        known=row.known_seconds,
        adopted=row.best_seconds if row.finder != row.job_id else None,
        history=history.by_task.get(row.id, ()),
        seconds=history.seconds(row.id),
        in_flight=total.in_flight,
        proposing=total.proposing > 0,
        rounds=total.opened - total.answers,
        promised=row.has_answer and not total.answers,
        answered=row.has_answer or total.answers > total.answering,
        answering=total.answering > 0,
        proposed=row.proposed,
        alternative_of=None if direct is None else ids.get(direct),
        shared=(job.target_hash or "", row.workload_hash) if job.warm_start else None,
    )


def _training(tasks: list[scheduling.TaskRow], versions: list[tuple[WorkState, int]]) -> TrainingSnapshot:
    return TrainingSnapshot(
        records=sum(row.trials - row.failures for row in tasks if row.searched),  # those have features
        trained_on=max((seen for state, seen in versions if state is WorkState.DONE), default=0),
        under_way=any(state in OPEN_WORK for state, _ in versions),
        failures=sum(state is WorkState.FAILED for state, _ in versions),
    )
