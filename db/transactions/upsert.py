"""INSERT … ON CONFLICT for both databases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Union

import sqlalchemy as sa
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


def insert_many(session: Session, kind: type[Base], rows: Sequence[dict[str, Any]]) -> None:
    """:func:`insert_missing` for many rows of the same columns; PostgreSQL copies them, which takes half the time."""
    if not rows:
        return
    if session.get_bind().dialect.name != "postgresql":
        insert_missing(session, kind, rows)
        return
    table, names = kind.__table__, list(rows[0])
    documents = {name for name in names if isinstance(table.c[name].type, sa.JSON)}
    columns = ", ".join(f'"{name}"' for name in names)
    incoming = f'"incoming_{kind.__tablename__}"'
    # The table's own name, and those of its columns: nothing of a request gets into the text.
    session.execute(
        sa.text(
            f"CREATE TEMP TABLE {incoming} ON COMMIT DROP AS SELECT {columns} FROM {kind.__tablename__} WITH NO DATA"
        )
    )
    driver: Any = session.connection().connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {incoming} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([_copied(row[name], name in documents) for name in names])
    session.execute(
        sa.text(f"INSERT INTO {kind.__tablename__} ({columns}) SELECT {columns} FROM {incoming} ON CONFLICT DO NOTHING")
    )
    session.execute(sa.text(f"DROP TABLE {incoming}"))


def _copied(value: Any, document: bool) -> Any:
    return json.dumps(value) if document and value is not None else value
