"""Leased work: what is due, who does it, until when, and what happens when nobody finishes it.

A row is due while its state is one that a worker must act on and ``dispatched < attempt``. The coordinator marks
it dispatched, with a deadline, before it sends the message; a lost message is found by that deadline. A worker
claims it with the attempt of its message, so a doubled or late message claims nothing, and moves the deadline
while it works. Only ``transition`` changes a state.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Job, Model, RecordImport
from db.models.work import ACTIVE, NOUNS, Row, Work
from db.queries.import_queue import KINDS, ready
from db.queries.scheduling import passed
from db.transactions import events, outcomes
from db.transactions.transitions import changed_rows, identity, job_of, transition
from tunesmith.events import Retried, kind_of
from tunesmith.states import WorkState


def due_for_dispatch(session: Session, kind: type[Row], limit: int = 100) -> Sequence[Row]:
    """Rows to publish, oldest first; on PostgreSQL they are locked and those that another locked are left out."""
    query = sa.select(kind).where(kind.state.in_(ACTIVE[kind]), kind.dispatched < kind.attempt)
    return session.scalars(
        query.order_by(kind.created_at, kind.id).limit(limit).with_for_update(skip_locked=True)
    ).all()


def mark_dispatched(session: Session, row: Work, timeout: float, now: dt.datetime | None = None) -> bool:
    """Set the deadline ``timeout`` seconds from now; False when the row changed meanwhile and must not be sent."""
    kind, deadline = type(row), (now or clock.now(session)) + dt.timedelta(seconds=timeout)
    marked = changed_rows(
        session,
        sa.update(kind)
        .where(kind.id == row.id, kind.attempt == row.attempt, kind.dispatched < row.attempt, kind.state == row.state)
        .values(dispatched=row.attempt, deadline=deadline, worker=None),
    )
    session.refresh(row)
    return bool(marked)


def claim(
    session: Session,
    kind: type[Row],
    row_id: str | int,
    attempt: int,
    worker: str,
    timeout: float,
    now: dt.datetime | None = None,
) -> Row | None:
    """Take a row for ``worker`` and ``timeout`` seconds; None when the message is stale or doubled.

    Queued work becomes running. Rows whose state says what is to be done (a model that is importing, a job that is
    preparing, a round that is proposing) keep it until the work is done.
    """
    deadline = (now or clock.now(session)) + dt.timedelta(seconds=timeout)
    claimed = changed_rows(
        session,
        sa.update(kind)
        .where(kind.id == row_id, kind.state.in_(ACTIVE[kind]), kind.attempt == attempt, kind.worker.is_(None))
        .values(worker=worker, deadline=deadline, dispatched=attempt),
    )
    if not claimed:
        return None
    row = session.get(kind, row_id, populate_existing=True)
    assert row is not None
    if row.state is WorkState.QUEUED:
        transition(session, row, WorkState.RUNNING, data={"worker": worker, "attempt": attempt})
    return row


def extend(
    session: Session,
    kind: type[Row],
    row_id: str | int,
    attempt: int,
    timeout: float,
    now: dt.datetime | None = None,
) -> bool:
    """Move the deadline; False when the work was cancelled, finished or given to another attempt."""
    deadline = (now or clock.now(session)) + dt.timedelta(seconds=timeout)
    return bool(
        changed_rows(
            session,
            sa.update(kind)
            .where(kind.id == row_id, kind.attempt == attempt, kind.state.in_(ACTIVE[kind]))
            .values(deadline=deadline),
        )
    )


def overdue(session: Session, kind: type[Row], longest: float, now: dt.datetime | None = None) -> Sequence[Row]:
    """Published rows whose deadline has passed, locked like those of :func:`due_for_dispatch`.

    Args:
        longest: seconds; a deadline further ahead was set by a clock that was put back since, and has passed, too.
    """
    now = now or clock.now(session)
    query = sa.select(kind).where(
        kind.state.in_(ACTIVE[kind]), kind.dispatched >= kind.attempt, passed(kind.deadline, longest, now)
    )
    return session.scalars(query.order_by(kind.deadline).limit(100).with_for_update(skip_locked=True)).all()


def retry(session: Session, row: Work, max_attempts: int, reason: str) -> bool:
    """Make ``row`` due again as a further attempt; False when it has used ``max_attempts``."""
    if row.attempt >= max_attempts:
        return False
    kind, noun, old = type(row), NOUNS[type(row)], row.attempt
    raised = changed_rows(
        session,
        sa.update(kind)
        .where(kind.id == row.id, kind.attempt == old, kind.state.in_(ACTIVE[kind]))
        .values(attempt=old + 1, worker=None, deadline=None),
    )
    session.refresh(row)
    if raised:
        if row.state is WorkState.RUNNING:
            transition(session, row, WorkState.QUEUED, data={"attempt": row.attempt})
        said = Retried(kind_of(noun, "retried"), **identity(row), attempt=row.attempt, reason=reason)
        events.append(session, said, job_of(row))
    return True


def retry_or_fail(session: Session, row: Work, max_attempts: int, problem: dict[str, Any]) -> bool:
    """Try again, or end the work for good as :func:`db.transactions.outcomes.give_up` says.

    Args:
        problem: the problem object that is stored when no attempt is left.

    Returns:
        True when the row will be tried again.
    """
    if retry(session, row, max_attempts, str(problem.get("detail", ""))):
        return True
    outcomes.give_up(session, row, problem)
    return False


def due_imports(session: Session, per_owner: int, limit: int = 100) -> list[Model | Job | RecordImport]:
    """Rows to publish: each user's first, then each one's second, oldest first; locked on PostgreSQL.

    Args:
        per_owner: pieces of work that one user may have with the importers, those already sent included.
    """
    chosen = session.execute(ready(per_owner).limit(limit)).all()
    found: dict[str, Model | Job | RecordImport] = {}
    for kind in KINDS:
        ids = [row.id for row in chosen if row.kind == kind.__tablename__]
        if ids:
            query = sa.select(kind).where(kind.id.in_(ids), kind.dispatched < kind.attempt)
            found.update((row.id, row) for row in session.scalars(query.with_for_update(skip_locked=True)))
    return [found[row.id] for row in chosen if row.id in found]


def postpone(session: Session, row: Work, seconds: float, now: dt.datetime, *, resend: bool) -> bool:
    """Give work that nobody took more time, and make it due again when ``resend``; False when somebody took it."""
    kind = type(row)
    values = {"deadline": now + dt.timedelta(seconds=seconds)}
    if resend:
        values = {"deadline": None, "dispatched": row.attempt - 1}  # type: ignore[dict-item]
    statement = sa.update(kind).where(
        kind.id == row.id, kind.attempt == row.attempt, kind.worker.is_(None), kind.state == row.state
    )
    return bool(changed_rows(session, statement.values(**values)))
