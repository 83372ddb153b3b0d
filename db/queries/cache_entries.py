"""Texts that a user keeps."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import CacheEntry
from tunesmith.cache_limits import MAX_PAGE


def find(session: Session, owner: str, namespace: str, key: str) -> CacheEntry | None:
    """An entry of a user."""
    query = sa.select(CacheEntry).where(
        CacheEntry.owner == owner, CacheEntry.namespace == namespace, CacheEntry.key == key
    )
    return session.scalar(query)


def page(session: Session, owner: str, namespace: str, *, before: int | None, limit: int) -> Sequence[CacheEntry]:
    """A user's entries in a namespace with an id below ``before``, the newest first.

    They end before their texts have more than ``MAX_PAGE`` characters, but for the first.
    """
    query = sa.select(CacheEntry.id, sa.func.length(CacheEntry.value)).where(
        CacheEntry.owner == owner, CacheEntry.namespace == namespace
    )
    if before is not None:
        query = query.where(CacheEntry.id < before)
    found: list[int] = []
    characters = 0
    for key, length in session.execute(query.order_by(CacheEntry.id.desc()).limit(limit)):
        characters += length
        if found and characters > MAX_PAGE:
            break
        found.append(key)
    rows = sa.select(CacheEntry).where(CacheEntry.id.in_(found)).order_by(CacheEntry.id.desc())
    return session.scalars(rows).all()


def follows(session: Session, owner: str, namespace: str, after: int) -> bool:
    """Whether a user has an entry in a namespace that is older than the one with the id ``after``."""
    query = sa.select(CacheEntry.id).where(
        CacheEntry.owner == owner, CacheEntry.namespace == namespace, CacheEntry.id < after
    )
    return session.scalar(query.limit(1)) is not None


def count(session: Session, owner: str, namespace: str) -> int:
    """How many entries a user has in a namespace."""
    query = sa.select(sa.func.count()).where(CacheEntry.owner == owner, CacheEntry.namespace == namespace)
    return session.scalar(query) or 0
