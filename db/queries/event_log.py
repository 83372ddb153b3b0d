"""The event log, read. Who has read up to an id has missed nothing before it."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Event, Job
from tunesmith.event_kinds import EventKind
from tunesmith.states import JobState


def page(
    session: Session, *, after: int = 0, job_id: str | None = None, limit: int = 200, before: int | None = None
) -> Sequence[Event]:
    """Events with an id greater than ``after``, oldest first; with ``before`` those below it, newest first."""
    query = sa.select(Event).where(Event.id > after).order_by(Event.id if before is None else Event.id.desc())
    query = query.limit(limit) if before is None else query.where(Event.id < before).limit(limit)
    if job_id is not None:
        query = query.where(Event.job_id == job_id)
    return session.scalars(query).all()


def of_job(job_id: str, after: int) -> sa.Select[int]:
    """A query of the ids of a job's events above ``after``."""
    return sa.select(Event.id).where(Event.job_id == job_id, Event.id > after)


def tail(session: Session, job_id: str, after: int, limit: int) -> tuple[JobState, list[Event]] | None:
    """A job's state and its events with an id greater than ``after``, oldest first, in one query; None: no such job."""
    new = sa.and_(Event.job_id == Job.id, Event.id > after)
    query = sa.select(Job.state, Event).outerjoin(Event, new).where(Job.id == job_id).order_by(Event.id).limit(limit)
    found = session.execute(query).all()
    return (found[0][0], [event for _, event in found if event is not None]) if found else None


def last_id(session: Session, job_id: str | None = None) -> int:
    """Id of the newest event, of a job or of all; 0 without any."""
    query = sa.select(sa.func.max(Event.id))
    return session.scalar(query if job_id is None else query.where(Event.job_id == job_id)) or 0


def any_of(session: Session, kind: EventKind, *, after: int) -> bool:
    """True when an event of that kind has an id greater than ``after``."""
    return bool(session.scalar(sa.select(sa.exists().where(Event.id > after, Event.kind == kind.value))))
