"""INSERT … ON CONFLICT for both databases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, Union

import sqlalchemy as sa
from pydantic_core import to_json
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from db.models import Base

Item = TypeVar("Item")
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


def insert_many(
    session: Session,
    kind: type[Base],
    items: Sequence[Item],
    row_of: Callable[[Item], dict[str, Any]],
    missing: Callable[[], Sequence[Item]],
) -> None:
    """:func:`insert_missing` for many rows of the same columns.

    PostgreSQL copies them straight into the table, which takes a third of the time, as nearly always none of them is
    there. Where one is, it refuses the copy, and those that are missing go in by way of a table of their own.

    Args:
        row_of: the columns of an item's row. A copied row is made when it is sent: the server stores those before it
            meanwhile.
        missing: those of the items that seem not to be there, asked for once a copy was refused.
    """
    if not items:
        return
    if session.get_bind().dialect.name != "postgresql":
        insert_missing(session, kind, [row_of(item) for item in items])
        return
    from psycopg.errors import UniqueViolation  # only where it is used: SQLite needs no driver

    connection = session.connection()
    driver: Any = connection.connection.driver_connection
    names, table = list(row_of(items[0])), kind.__tablename__
    columns = ", ".join(f'"{name}"' for name in names)  # the table's own: nothing of a request gets into the text
    try:
        with connection.begin_nested():
            _copy(driver, f"{table} ({columns})", _copied(kind, names, map(row_of, items)))
    except UniqueViolation:
        items = missing()
        if not items:
            return
        incoming = f'"incoming_{table}"'
        session.execute(
            sa.text(f"CREATE TEMP TABLE {incoming} ON COMMIT DROP AS SELECT {columns} FROM {table} WITH NO DATA")
        )
        _copy(driver, f"{incoming} ({columns})", _copied(kind, names, map(row_of, items)))
        insert = f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {incoming} ON CONFLICT DO NOTHING"
        session.execute(sa.text(insert))
        session.execute(sa.text(f"DROP TABLE {incoming}"))


def _copy(driver: Any, place: str, rows: Iterable[Sequence[Any]]) -> None:
    with driver.cursor() as cursor, cursor.copy(f"COPY {place} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _copied(kind: type[Base], names: Sequence[str], rows: Iterable[dict[str, Any]]) -> Iterator[list[Any]]:
    """What is copied: JSON as text. A document that many rows share is written once.

    Lists, of which each row has its own, are written by pydantic, in a tenth of the time that Python's module takes.
    """
    documents = [isinstance(kind.__table__.c[name].type, sa.JSON) for name in names]
    written: dict[int, str] = {}

    def text(value: Any) -> str | None:
        if not isinstance(value, dict):
            return None if value is None else to_json(value).decode()
        if id(value) not in written:
            written[id(value)] = json.dumps(value)
        return written[id(value)]

    for row in rows:
        yield [text(row[name]) if document else row[name] for name, document in zip(names, documents, strict=True)]
