"""The audit log, written."""

from __future__ import annotations

from sqlalchemy.orm import Session

from db.models import AuditRow


def write(session: Session, entry: AuditRow) -> None:
    """Add an entry."""
    session.add(entry)
