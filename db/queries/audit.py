"""The audit log: written once, read by operators."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import AuditRow


def page(session: Session, *, owner: str | None, before: int | None, limit: int) -> Sequence[AuditRow]:
    """Entries with an id below ``before``, newest first."""
    query = sa.select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)
    if owner is not None:
        query = query.where(AuditRow.owner == owner)
    if before is not None:
        query = query.where(AuditRow.id < before)
    return session.scalars(query).all()
