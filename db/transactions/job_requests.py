"""What users ask for: jobs that are submitted, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from db.models import Job, Model
from db.transactions import events


def submit(session: Session, job: Job, model: Model) -> None:
    """Store a new job of a model."""
    session.add(job)
    session.flush()
    about = {"id": job.id, "to": job.state.value, "model": model.public_id, "target": job.target_spec}
    events.append(session, "job_queued", job.id, **about)


def change(session: Session, job: Job, values: Mapping[str, Any]) -> None:
    """Set columns of a locked job."""
    for name, value in values.items():
        setattr(job, name, value)
    if values:
        events.append(session, "job_changed", job.id, id=job.id, **values)
    session.flush()


def delete(session: Session, job: Job) -> None:
    """Remove a locked job that is over; its records stay."""
    job_id = job.id
    session.delete(job)
    session.flush()
    events.append(session, "job_deleted", None, id=job_id)
