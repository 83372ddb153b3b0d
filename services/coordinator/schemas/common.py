"""Parts that several bodies share."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict

from tunesmith.errors import InvalidInput

Item = TypeVar("Item")
MAX_LIMIT = 200
MAX_ID = 2**63 - 1
"""The largest integer that a database column holds."""

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items of a page.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the page before.")]


class Body(BaseModel):
    """A request's body: nothing unknown is let through."""

    model_config = ConfigDict(extra="forbid")


class Page(BaseModel, Generic[Item]):
    """Part of a list; ``next_cursor`` is null on the last page."""

    items: list[Item]
    next_cursor: str | None = None


def encode_cursor(*values: Any) -> str:
    """An opaque cursor that remembers ``values``."""
    plain = [value.isoformat() if isinstance(value, dt.datetime) else value for value in values]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, size: int) -> list[Any] | None:
    """Inverse of :func:`encode_cursor`. Raises InvalidInput."""
    if cursor is None:
        return None
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        values = None
    if not isinstance(values, list) or len(values) != size:
        raise foreign_cursor(cursor)
    return values


def decode_number(cursor: str | None, default: int) -> int:
    """The one integer that a cursor remembers, ``default`` without a cursor. Raises InvalidInput."""
    values = decode_cursor(cursor, 1)
    return default if values is None else whole(values[0], cursor)


def whole(value: Any, cursor: str | None) -> int:
    """``value`` of a cursor as an integer that a database holds. Raises InvalidInput."""
    if type(value) is not int or abs(value) > MAX_ID:
        raise foreign_cursor(cursor)
    return value


def foreign_cursor(cursor: str | None) -> InvalidInput:
    """The error for a cursor that this API did not make."""
    return InvalidInput(
        "the cursor is not one of ours: take `next_cursor` of the page before", field="cursor", value=cursor
    )
