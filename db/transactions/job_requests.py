"""What users ask for: jobs that are submitted, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Job, JobTag, Model
from db.transactions import events
from tunesmith.events import JobChanged, JobDeleted, JobQueued


def submit(session: Session, job: Job, model: Model, tags: Sequence[str] = ()) -> None:
    """Store a new job of a model."""
    session.add(job)
    session.flush()
    _add_tags(session, job, tags)
    events.append(session, JobQueued(job.id, job.state.value, model.public_id, job.target_spec), job.id)


def change(session: Session, job: Job, values: Mapping[str, Any], tags: Sequence[str] | None = None) -> None:
    """Set columns of a locked job, and its tags unless they are None."""
    for name, value in values.items():
        setattr(job, name, value)
    if tags is not None:
        session.execute(sa.delete(JobTag).where(JobTag.job_id == job.id))
        _add_tags(session, job, tags)
    changed = {**values, **({} if tags is None else {"tags": list(tags)})}
    if changed:
        events.append(session, JobChanged(job.id, changed), job.id)
    session.flush()


def delete(session: Session, job: Job) -> None:
    """Remove a locked job that is over; its records stay."""
    job_id = job.id
    session.delete(job)
    session.flush()
    events.append(session, JobDeleted(job_id))


def _add_tags(session: Session, job: Job, tags: Sequence[str]) -> None:
    session.add_all(JobTag(job_id=job.id, tag=tag) for tag in tags)
    session.flush()
