"""The audit log: written once, read by operators."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import AuditRow
from db.queries.totals import total


def page(session: Session, *, owner: str | None, before: int | None, limit: int) -> Sequence[AuditRow]:
    """Entries with an id below ``before``, newest first."""
    query = _of(owner).order_by(AuditRow.id.desc()).limit(limit)
    if before is not None:
        query = query.where(AuditRow.id < before)
    return session.scalars(query).all()


def count(session: Session, owner: str | None) -> int | None:
    """How many entries there are; None where they are too many to count."""
    return total(session, _of(owner))


def _of(owner: str | None) -> sa.Select[AuditRow]:
    query = sa.select(AuditRow)
    return query if owner is None else query.where(AuditRow.owner == owner)
