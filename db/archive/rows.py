"""Rows of tables as lines of JSON, the same for every kind of database."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections.abc import Iterable
from typing import Any, BinaryIO

import sqlalchemy as sa
from sqlalchemy import Connection

from db.chunks import CHUNK, chunks
from db.models.base import Base, Json, UtcDateTime

TIME, DOCUMENT, PLAIN = "time", "json", "plain"


def tables() -> list[sa.Table]:
    """Every table, those that others refer to first."""
    return list(Base.metadata.sorted_tables)


def kinds(table: sa.Table) -> dict[str, str]:
    """How the values of each column are written."""
    return {column.name: _kind(column.type) for column in table.columns}


def _kind(type_: sa.types.TypeEngine[Any]) -> str:
    if isinstance(type_, UtcDateTime):
        return TIME
    return DOCUMENT if isinstance(type_, sa.JSON) else PLAIN


def write(connection: Connection, table: sa.Table, file: BinaryIO) -> int:
    """Write a table's rows, those that others of the same table refer to first; their number."""
    own = [key.parent for key in table.foreign_keys if key.column.table is table]
    order = [*(column.is_not(None) for column in own), *table.primary_key.columns]
    found = connection.execution_options(yield_per=CHUNK).execute(sa.select(table).order_by(*order))
    count = 0
    for row in found:
        file.write(json.dumps([_plain(value) for value in row], separators=(",", ":")).encode() + b"\n")
        count += 1
    return count


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return value.value if isinstance(value, enum.Enum) else value


def load(connection: Connection, name: str, columns: dict[str, str], lines: Iterable[bytes]) -> int:
    """Insert what :func:`write` wrote, whatever the present models say of the table; the number of rows."""
    types: dict[str, Any] = {TIME: UtcDateTime(), DOCUMENT: Json, PLAIN: sa.types.NullType()}
    target = sa.table(name, *(sa.column(column, types[kind]) for column, kind in columns.items()))
    times = [number for number, kind in enumerate(columns.values()) if kind == TIME]
    count = 0
    for chunk in chunks(lines):
        rows = []
        for line in chunk:
            values = json.loads(line)
            for number in times:
                if values[number] is not None:
                    values[number] = dt.datetime.fromisoformat(values[number])
            rows.append(dict(zip(columns, values, strict=True)))
        connection.execute(sa.insert(target), rows)
        count += len(rows)
    return count


def last_ids(connection: Connection) -> dict[str, int]:
    """The last id that each table with numbered rows has given out, of rows that are gone, too."""
    found = {}
    for table in tables():
        column = table.autoincrement_column
        if column is None:
            continue
        if connection.dialect.name == "sqlite":
            ids = sa.table("sqlite_sequence", sa.column("seq"), sa.column("name"))
            given = sa.select(ids.c.seq).where(ids.c.name == table.name)
        else:
            ids = sa.table(f"{table.name}_{column.name}_seq", sa.column("last_value"), sa.column("is_called"))
            given = sa.select(sa.case((ids.c.is_called, ids.c.last_value), else_=0))
        found[table.name] = int(connection.scalar(given) or 0)
    return found


def go_on_after(connection: Connection, ids: dict[str, int]) -> None:
    """Give out greater ids from now on."""
    for name, last in ids.items():
        if connection.dialect.name == "sqlite":
            given = sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"))
            connection.execute(sa.delete(given).where(given.c.name == name))
            connection.execute(sa.insert(given), {"name": name, "seq": last})
        elif last:
            sequence = {"name": f"{name}_id_seq", "last": last}
            connection.execute(sa.text("SELECT setval(CAST(:name AS regclass), :last)"), sequence)
