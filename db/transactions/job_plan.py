"""What a job's preparation writes: its target, families and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Family, Job, JobTask, Model, SketchRow, TargetRow
from db.queries import models, records
from db.transactions import champions, events, model_import
from db.transactions.default_schedules import keep_default
from db.transactions.transitions import transition
from db.transactions.upsert import insert_missing
from tunesmith.events import PrecisionChosen
from tunesmith.preparation import Preparation
from tunesmith.states import JobState, ModelState
from tunesmith.unmeasured import Answer

MOST_REASON = 1000
"""Characters of the reason for a precision."""


@dataclass(frozen=True)
class PlannedTask:
    """A task of a job, with its design space."""

    workload: str
    name: str
    family: str
    weight: int
    sketches: Mapping[str, dict[str, Any]]
    """Bodies by hash, in the space's order."""
    tunable: bool
    alternative_of: str | None = None
    problem: dict[str, Any] | None = None
    """Why the design space cannot be opened, if so: the task keeps its default schedule."""
    answer: Answer | None = None
    """The schedule that a job gives which measures nothing."""


def store_target(session: Session, target_hash: str, json: dict[str, Any], device_class: str) -> None:
    """Remember a canonical target."""
    row = {"hash": target_hash, "json": json, "device_class": device_class, "created_at": clock.now(session)}
    insert_missing(session, TargetRow, [row])


def choose_precision(session: Session, job: Job, precision: str, reason: str, preparation: Preparation) -> bool:
    """Store the precision of a locked job, and see :func:`prepare_as`."""
    job.precision, job.precision_reason = precision, reason
    events.append(session, PrecisionChosen(job.id, precision, reason), job.id)
    return prepare_as(session, job, preparation)


def prepare_as(session: Session, job: Job, preparation: Preparation) -> bool:
    """Let a locked job tune its model in another preparation; True where the model is to be imported in that.

    The job is queued then, as one whose model was just uploaded.
    """
    model = session.get_one(Model, job.model_id)
    own = model if model.variant_of is None else session.get_one(Model, model.variant_of)
    wanted = model_import.prepared(session, own, preparation)
    job.model_id = wanted.id
    session.flush()
    if wanted.state is ModelState.READY:
        return False
    transition(session, job, JobState.QUEUED, attempt=job.attempt + 1, worker=None, deadline=None)
    return True


def store_plan(session: Session, job: Job, target_hash: str, planned: Sequence[PlannedTask]) -> None:
    """Everything that a preparation found, and the job's state ``running``, in the session's one transaction."""
    families = {name: Family(job_id=job.id, name=name[:100]) for name in dict.fromkeys(t.family for t in planned)}
    session.add_all(families.values())
    session.flush()
    for task in sorted(planned, key=lambda task: task.workload):
        store_sketches(session, task.workload, task.sketches)
    for position, task in enumerate(planned):
        row = JobTask(
            job_id=job.id,
            workload_hash=task.workload,
            family_id=families[task.family].id,
            position=position,
            name=task.name[:200],
            weight=task.weight,
            tunable=task.tunable,
            sketches=list(task.sketches),
            exhausted=not task.tunable,
            alternative_of=task.alternative_of,
            answer=task.answer.to_json() if task.answer is not None else None,
        )
        session.add(row)
        if task.problem is not None:
            session.flush()
            keep_default(session, row, task.problem)
    session.flush()
    job.target_hash = target_hash
    known = champions.adopt_earlier(session, job) if job.warm_start else 0
    note = session.get_one(Model, job.model_id).note
    if job.collecting is not None:
        _count_earlier_labels(session, job)
    transition(
        session,
        job,
        JobState.RUNNING,
        started_at=clock.now(session),
        data={"tasks": len(planned), "tunable": sum(task.tunable for task in planned), "known": known}
        | ({"note": note} if note else {}),
    )


def _count_earlier_labels(session: Session, job: Job) -> None:
    """Runs of a collecting job add up: what earlier ones left counts."""
    caches, found = models.caches_of(session, job), records.labels_of(session, job)
    for task in session.scalars(sa.select(JobTask).where(JobTask.job_id == job.id)):
        task.earlier_labels = found.get((task.workload_hash, caches[task.workload_hash]), 0)
    session.flush()


def store_sketches(session: Session, workload: str, bodies: Mapping[str, dict[str, Any]]) -> None:
    """Store the sketches of a workload, by hash, that are not there yet."""
    now = clock.now(session)
    rows = [{"hash": key, "workload_hash": workload, "body": bodies[key], "created_at": now} for key in sorted(bodies)]
    insert_missing(session, SketchRow, rows)
