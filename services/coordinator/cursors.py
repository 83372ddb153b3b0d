"""Pages of a list: the parameters of a route, and the cursors that say where the next page begins."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from fastapi import Query

from tunesmith.errors import InvalidInput

MAX_LIMIT = 200
MAX_ID = 2**63 - 1
"""The largest integer that a database column holds."""

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items of a page.")]
_PAGE_BEFORE = "`next_cursor` of the page before."
Cursor = Annotated[str | None, Query(pattern="^[0-9]{1,18}$", description=_PAGE_BEFORE)]
"""Cursor of a list in order of a number."""
PlaceCursor = Annotated[str | None, Query(pattern="^[0-9]{1,16}~[0-9A-Za-z_-]{1,64}$", description=_PAGE_BEFORE)]
"""Cursor of a list in order of a time or a number, and of ids where that is equal."""
PairCursor = Annotated[str | None, Query(pattern="^[0-9]{1,9}~[0-9]{1,18}$", description=_PAGE_BEFORE)]
"""Cursor of a list in order of two numbers."""
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def encode_place(value: dt.datetime | int, key: str) -> str:
    """A :data:`PlaceCursor`; a number must not be negative."""
    number = (value - EPOCH) // dt.timedelta(microseconds=1) if isinstance(value, dt.datetime) else value
    return f"{number}~{key}"


def decode_place(cursor: str | None) -> tuple[int, str] | None:
    """Inverse of :func:`encode_place`; of a time, microseconds since 1970. Raises InvalidInput."""
    if cursor is None:
        return None
    number, _, key = cursor.partition("~")
    return _whole(number, cursor), key


def decode_time(cursor: str | None) -> tuple[dt.datetime, str] | None:
    """Inverse of :func:`encode_place` for times. Raises InvalidInput."""
    at = decode_place(cursor)
    return None if at is None else (EPOCH + dt.timedelta(microseconds=at[0]), at[1])


def decode_number(cursor: str | None, default: int) -> int:
    """The number that a :data:`Cursor` stands for, ``default`` without a cursor. Raises InvalidInput."""
    return default if cursor is None else _whole(cursor, cursor)


def _whole(digits: str, cursor: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise InvalidInput(
            "the cursor is invalid: pass the previous page's `next_cursor`", field="cursor", value=cursor[:100]
        )
    return int(digits)
