"""Answers that are stored for repeated requests."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import IdempotencyKey


def forget(session: Session, older_than: dt.datetime) -> None:
    """Delete answers that were stored for repeated requests long ago."""
    session.execute(sa.delete(IdempotencyKey).where(IdempotencyKey.created_at < older_than))


def store(
    session: Session, owner: str, route: str, key: str, fingerprint: str, status: int, body: dict[str, Any]
) -> None:
    """Store the answer to a request. Raises IntegrityError when the same request stored one first."""
    session.add(IdempotencyKey(owner=owner, route=route, key=key, fingerprint=fingerprint, status=status, body=body))
    session.flush()
