"""Reading times that clients give back."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tunesmith.errors import InvalidInput


def parse_time(value: Any, field: str) -> dt.datetime:
    """An ISO 8601 time with its zone. Raises InvalidInput."""
    try:
        parsed = dt.datetime.fromisoformat(str(value))
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise InvalidInput(f"{value!r} is not a time", field=field, value=value)
    return parsed
