"""API keys: which of them open the routes of operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import ApiKey

OPERATOR = "operator"


def operators(session: Session) -> Sequence[ApiKey]:
    """Valid keys with the scope of operators."""
    return [key for key in session.scalars(valid()) if OPERATOR in key.scopes]


def valid() -> sa.Select[Any]:
    """SELECT of the keys that were not revoked, by id."""
    return sa.select(ApiKey).where(ApiKey.revoked.is_(False)).order_by(ApiKey.id)
