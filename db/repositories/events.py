"""The event log. Ids only grow, and appear in order: who has read up to an id has missed nothing before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from db.models import Event, Job
from tunesmith.states import JobState

_PENDING = "tunesmith_events"
_LOCK = 0x6576_6E74
"""Key of the PostgreSQL advisory lock held from an event's insertion to its commit."""


def append(session: Session, kind: str, job_id: str | None = None, **data: Any) -> None:
    """Log something that happened. The row is written at the very end of the session's transaction.

    On PostgreSQL, sequence numbers are given out at insertion, so a transaction that commits late could make an
    event appear behind a reader's back. Events are therefore inserted last and under a lock that ends with the
    transaction; being last, that lock can be part of no deadlock.
    """
    if _PENDING not in session.info:
        session.info[_PENDING] = []
        event.listen(session, "before_commit", _write)
        event.listen(session, "after_soft_rollback", _forget)
    if not session.in_transaction():
        session.begin()  # else a rollback would be of nothing, and keep the event
    session.info[_PENDING].append((session.get_nested_transaction(), Event(kind=kind, job_id=job_id, data=data)))


def _write(session: Session) -> None:
    pending = session.info[_PENDING]
    if not pending or session.in_nested_transaction():
        return
    session.flush()
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    session.add_all(row for _, row in pending)
    session.flush()
    pending.clear()


def _forget(session: Session, previous: SessionTransaction) -> None:
    pending = session.info[_PENDING]
    pending[:] = [entry for entry in pending if previous.nested and entry[0] is not previous]


def page(session: Session, *, after: int = 0, job_id: str | None = None, limit: int = 200) -> Sequence[Event]:
    """Events with an id greater than ``after``, oldest first."""
    query = sa.select(Event).where(Event.id > after).order_by(Event.id).limit(limit)
    if job_id is not None:
        query = query.where(Event.job_id == job_id)
    return session.scalars(query).all()


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


def any_of(session: Session, kind: str, *, after: int) -> bool:
    """True when an event of that kind has an id greater than ``after``."""
    return bool(session.scalar(sa.select(sa.exists().where(Event.id > after, Event.kind == kind))))
