"""Columns of numbers, read as arrays.

A driver makes an object of every value, which takes three times as long as PostgreSQL needs to find them. It can send a
whole column as one string of its own binary form instead, which NumPy reads as it is. SQLite lives in the process, and
rows are as good there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.orm import Session


class Numbers(NamedTuple):
    """A column to read.

    Attributes:
        of: what to select.
        kind: type of the array: ``np.int64`` or ``np.bool_`` for whole numbers, which may not be NULL; ``np.float64``,
            where NULL becomes NaN.
    """

    of: Any
    kind: type[np.generic]


def read(
    session: Session, key: Any, columns: Sequence[Numbers], where: sa.ColumnElement[bool]
) -> Iterator[tuple[Any, list[NDArray[Any]]]]:
    """The columns of a table's rows as arrays [rows], for each value of ``key``; rows in no order, but the same one for
    all."""
    if session.get_bind().dialect.name == "postgresql":
        return _packed(session, key, columns, where)
    return _rows(session, key, columns, where)


def _packed(
    session: Session, key: Any, columns: Sequence[Numbers], where: sa.ColumnElement[bool]
) -> Iterator[tuple[Any, list[NDArray[Any]]]]:
    # Aggregates without an order of their own see the rows in the same one.
    query = sa.select(key, *(_string(column) for column in columns)).where(where).group_by(key)
    for value, *strings in session.connection().execute(query):
        yield (
            value,
            [
                np.frombuffer(string, _WIRE[column.kind]).astype(column.kind)
                for string, column in zip(strings, columns, strict=True)
            ],
        )


_WIRE = {np.int64: ">i8", np.bool_: ">i8", np.float64: ">f8"}


def _string(column: Numbers) -> sa.ColumnElement[bytes]:
    if column.kind is np.float64:
        value = sa.func.float8send(sa.func.coalesce(column.of, sa.literal_column("'NaN'::float8")))
    else:
        value = sa.func.int8send(column.of)
    return sa.func.string_agg(value, sa.literal_column("''::bytea"), type_=sa.LargeBinary)


def _rows(
    session: Session, key: Any, columns: Sequence[Numbers], where: sa.ColumnElement[bool]
) -> Iterator[tuple[Any, list[NDArray[Any]]]]:
    result: Any = session.connection().execute(sa.select(key, *(column.of for column in columns)).where(where))
    found = result.cursor.fetchall()  # the driver's own tuples: to make rows of them takes as long as to find them
    if not found:
        return
    keys, *values = zip(*found, strict=True)
    arrays = [np.array(each, dtype=column.kind) for each, column in zip(values, columns, strict=True)]
    names, place = np.unique(np.array(keys), return_inverse=True)
    for number, value in enumerate(names.tolist()):
        mine = place == number
        yield value, [array[mine] for array in arrays] if len(names) > 1 else arrays
