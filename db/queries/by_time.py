"""Rows by time: ids grow with it, so that no index of a time is needed."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Event, Record


def last_before(session: Session, kind: type[Event] | type[Record], before: dt.datetime) -> int:
    """The greatest id of the rows made before a time, found by halving; 0 without any."""
    low, high = 0, session.scalar(sa.select(sa.func.max(kind.id))) or 0
    while low < high:
        middle = (low + high + 1) // 2
        query = sa.select(kind.id, kind.created_at).where(kind.id <= middle)
        found = session.execute(query.order_by(kind.id.desc()).limit(1)).first()
        if found is None or found.created_at < before:
            low = middle
        else:
            high = found.id - 1
    return low
