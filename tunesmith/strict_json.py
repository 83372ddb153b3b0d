"""JSON of strangers: read once, strictly, so that nothing odd reaches a database, a message or a recursion.

Python's parser takes more than JSON and more than a database holds: lone surrogates, which have no UTF-8, zero bytes,
which PostgreSQL refuses, ``NaN`` and ``Infinity``, numbers of any size, and nesting until its own stack ends.
"""

from __future__ import annotations

import json
import math
from typing import Any

from tunesmith.errors import InvalidInput

MAX_DEPTH = 32
"""Arrays and objects inside of each other; the API's own bodies need four."""
MAX_INTEGER = 2**63 - 1
"""The largest integer that a database column holds."""


def loads(text: str | bytes, field: str) -> Any:
    """The value that ``text`` stands for.

    Args:
        field: named by errors.

    Raises:
        InvalidInput: not JSON, or JSON that cannot be kept: see :func:`check`.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise _too_deep(field) from None
    except ValueError as error:  # also bytes that are no Unicode, and integers of thousands of digits
        raise InvalidInput(f"the JSON does not parse: {str(error)[:200]}", field=field) from None
    check(value, field)
    return value


def check(value: Any, field: str) -> None:
    """Refuse what a database or a message cannot hold, anywhere in a JSON value.

    Raises:
        InvalidInput: a text that :func:`check_text` refuses, an infinite number, an integer beyond 64 bits, or
            more than ``MAX_DEPTH`` levels.
    """
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise _too_deep(field)
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                check_text(item, field)
            elif isinstance(item, dict):
                below += [*item.keys(), *item.values()]
            elif isinstance(item, list | tuple):
                below += item
            elif isinstance(item, float) and not math.isfinite(item):
                raise InvalidInput("a number is infinite or NaN", field=field)
            elif isinstance(item, int) and abs(item) > MAX_INTEGER:
                raise InvalidInput("an integer has more than 64 bits", field=field)
        level, depth = below, depth + 1


def check_text(text: str, field: str) -> None:
    """Refuse a text with a zero byte or half a character. Raises InvalidInput."""
    if "\0" in text:
        raise InvalidInput("a string contains a zero byte", field=field)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("a string contains a lone surrogate (half of a character)", field=field) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _too_deep(field: str) -> InvalidInput:
    return InvalidInput(f"the JSON is nested deeper than {MAX_DEPTH} levels", field=field)
