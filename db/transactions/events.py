"""The event log. Ids only grow, and appear in order: who has read up to an id has missed nothing before it."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from db.models import Event
from tunesmith.events import EventData

_PENDING = "tunesmith_events"


_LOCK = 0x6576_6E74
"""Key of the PostgreSQL advisory lock held from an event's insertion to its commit."""


def append(session: Session, said: EventData, job_id: str | None = None) -> None:
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
    row = Event(kind=said.kind.value, job_id=job_id, data=said.to_json())
    session.info[_PENDING].append((session.get_nested_transaction(), row))


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
