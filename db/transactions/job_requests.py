"""What users ask for: jobs that are submitted, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from db.models import Job, Model
from db.transactions import events
from tunesmith.events import JobChanged, JobDeleted, JobQueued


def submit(session: Session, job: Job, model: Model) -> None:
    """Store a new job of a model."""
    session.add(job)
    session.flush()
    events.append(session, JobQueued(job.id, job.state.value, model.public_id, job.target_spec), job.id)


def change(session: Session, job: Job, values: Mapping[str, Any]) -> None:
    """Set columns of a locked job."""
    for name, value in values.items():
        setattr(job, name, value)
    if values:
        events.append(session, JobChanged(job.id, values), job.id)
    session.flush()


def delete(session: Session, job: Job) -> None:
    """Remove a locked job that is over; its records stay."""
    job_id = job.id
    session.delete(job)
    session.flush()
    events.append(session, JobDeleted(job_id))
