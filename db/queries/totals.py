"""How long a list is."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

MAX_TOTAL = 100_000
"""Beyond so many rows counting takes longer than the number is worth."""


def total(session: Session, query: sa.Select[Any]) -> int | None:
    """How many rows a query has, without its order and limit; None beyond :data:`MAX_TOTAL`."""
    rows = query.with_only_columns(sa.literal(1), maintain_column_froms=True).order_by(None).limit(MAX_TOTAL + 1)
    count = session.scalar(sa.select(sa.func.count()).select_from(rows.subquery())) or 0
    return count if count <= MAX_TOTAL else None
