"""API keys: which of them open the routes of operators."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import ApiKey

OPERATOR = "operator"


def operators(session: Session, *, lock: bool = False) -> Sequence[ApiKey]:
    """Valid keys with the scope of operators; ``lock`` keeps others from revoking one until the transaction ends."""
    query = sa.select(ApiKey).where(ApiKey.revoked.is_(False)).order_by(ApiKey.id)
    if lock:
        query = query.with_for_update()
    return [key for key in session.scalars(query) if OPERATOR in key.scopes]
