"""Texts that a user keeps."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import CacheEntry


def find(session: Session, owner: str, namespace: str, key: str) -> CacheEntry | None:
    """An entry of a user."""
    query = sa.select(CacheEntry).where(
        CacheEntry.owner == owner, CacheEntry.namespace == namespace, CacheEntry.key == key
    )
    return session.scalar(query)


def page(session: Session, owner: str, namespace: str, *, before: int | None, limit: int) -> Sequence[CacheEntry]:
    """A user's entries in a namespace with an id below ``before``, the newest first."""
    query = sa.select(CacheEntry).where(CacheEntry.owner == owner, CacheEntry.namespace == namespace)
    if before is not None:
        query = query.where(CacheEntry.id < before)
    return session.scalars(query.order_by(CacheEntry.id.desc()).limit(limit)).all()


def count(session: Session, owner: str, namespace: str) -> int:
    """How many entries a user has in a namespace."""
    query = sa.select(sa.func.count()).where(CacheEntry.owner == owner, CacheEntry.namespace == namespace)
    return session.scalar(query) or 0
