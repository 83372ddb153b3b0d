"""Keeping texts of users, and forgetting them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import CacheEntry


def put(session: Session, owner: str, namespace: str, key: str, value: str, most: int) -> CacheEntry:
    """Keep a text under a key, in the place of what is there; the oldest texts of the user give way beyond ``most``.

    Raises:
        IntegrityError: somebody else wrote the same key at once.
    """
    delete(session, owner, namespace, key)
    row = CacheEntry(owner=owner, namespace=namespace, key=key, value=value)
    session.add(row)
    session.flush()
    if most:
        kept = sa.select(CacheEntry.id).where(CacheEntry.owner == owner).order_by(CacheEntry.id.desc()).limit(most)
        oldest = session.scalar(sa.select(sa.func.min(kept.subquery().c.id)))
        session.execute(sa.delete(CacheEntry).where(CacheEntry.owner == owner, CacheEntry.id < oldest))
    return row


def delete(session: Session, owner: str, namespace: str, key: str) -> bool:
    """Forget a text; False where there is none."""
    gone = sa.delete(CacheEntry).where(
        CacheEntry.owner == owner, CacheEntry.namespace == namespace, CacheEntry.key == key
    )
    return bool(session.execute(gone.returning(CacheEntry.id)).all())
