"""Locks that are held until the transaction ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import ApiKey, Base, Job
from db.queries.api_keys import OPERATOR, valid
from tunesmith.states import OPEN_JOBS

Kind = TypeVar("Kind", bound=Base)

_SCHEDULING_LOCK = 0x7363_6865
"""Key of the PostgreSQL advisory lock that lets one loop act at a time."""


_QUOTA_LOCK = 0x7175_6F74
"""First key of the PostgreSQL advisory lock that lets one submission of a user act at a time."""


def lock_scheduling(session: Session) -> None:
    """Keep other loops out until the transaction ends (on SQLite a write transaction does that by itself)."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(_SCHEDULING_LOCK)))


def count_open_jobs(session: Session, owner: str) -> int:
    """Jobs of a user that are not over; until the transaction ends nobody else who asks gets an answer."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(_QUOTA_LOCK, sa.func.hashtext(owner))))
    query = sa.select(sa.func.count()).select_from(Job).where(Job.owner == owner, Job.state.in_(OPEN_JOBS))
    return session.scalar(query) or 0


def lock_job(session: Session, job_id: str) -> Job | None:
    """A job by id, which nobody else moves until the transaction ends."""
    return session.get(Job, job_id, populate_existing=True, with_for_update=True)


def lock_operators(session: Session) -> Sequence[ApiKey]:
    """Valid keys with the scope of operators, none of which anybody else revokes until the transaction ends."""
    return [key for key in session.scalars(valid().with_for_update()) if OPERATOR in key.scopes]


def lock_row(session: Session, kind: type[Kind], row_id: int | str) -> Kind | None:
    """A row as it is now, which nobody else changes until the transaction ends; None when it is gone."""
    return session.get(kind, row_id, with_for_update=True, populate_existing=True)
