"""What a job's preparation writes: its target, families and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Batch, Family, Job, JobTask, Round, TargetRow
from db.repositories import inheritance, sketches
from db.repositories.transitions import transition
from db.repositories.upsert import insert_missing
from tunesmith.states import JobState, WorkState
from tunesmith.types import Candidate

_OPEN = (WorkState.QUEUED, WorkState.RUNNING)


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


def store_target(session: Session, target_hash: str, json: dict[str, Any], device_class: str) -> None:
    """Remember a canonical target."""
    row = {"hash": target_hash, "json": json, "device_class": device_class, "created_at": clock.now(session)}
    insert_missing(session, TargetRow, [row])


def store_plan(session: Session, job: Job, target_hash: str, planned: Sequence[PlannedTask]) -> None:
    """Everything that a preparation found, and the job's state ``running``, in the session's one transaction."""
    families = {name: Family(job_id=job.id, name=name[:100]) for name in dict.fromkeys(t.family for t in planned)}
    session.add_all(families.values())
    session.flush()
    for task in sorted(planned, key=lambda task: task.workload):
        sketches.ensure(session, task.workload, task.sketches)
    for position, task in enumerate(planned):
        session.add(
            JobTask(
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
            )
        )
    session.flush()
    job.target_hash = target_hash
    known = inheritance.inherit(session, job) if job.warm_start else 0
    transition(
        session,
        job,
        JobState.RUNNING,
        started_at=clock.now(session),
        data={"tasks": len(planned), "tunable": sum(task.tunable for task in planned), "known": known},
    )


def pending(session: Session, job_task_id: int) -> set[Candidate]:
    """Candidates of a task that are out for measurement."""
    query = sa.select(Batch.candidates).join(Round, Batch.round_id == Round.id)
    rows = session.scalars(query.where(Round.job_task_id == job_task_id, Batch.state.in_(_OPEN)))
    return {Candidate.from_json(value) for candidates in rows for value in candidates}
