"""INSERT … ON CONFLICT for both databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from db.models import Base

Insert = Union[postgresql.Insert, sqlite.Insert]


def insert_for(session: Session, kind: type[Base]) -> Insert:
    """An INSERT into ``kind``'s table that has ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
    if session.get_bind().dialect.name == "postgresql":
        return postgresql.insert(kind)
    return sqlite.insert(kind)


def insert_missing(session: Session, kind: type[Base], rows: Sequence[dict[str, Any]]) -> None:
    """Insert ``rows``, leaving out those whose key is there already.

    Rows go in sorted by their values' order given; callers sort by key, so that two writers cannot deadlock.
    """
    if rows:
        session.execute(insert_for(session, kind).on_conflict_do_nothing(), list(rows))
