"""API keys that are made."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from db.models import ApiKey


def create(session: Session, key_id: str, sha256: str, owner: str, scopes: Sequence[str]) -> ApiKey:
    """Store a key by its hash."""
    row = ApiKey(id=key_id, sha256=sha256, owner=owner, scopes=list(scopes), revoked=False)
    session.add(row)
    session.flush()
    return row
