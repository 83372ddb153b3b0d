"""Texts in the cache."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from tunesmith.answers.base import Answer, Body
from tunesmith.cache_limits import MAX_VALUE


class CacheValue(Body):
    """A text to keep, such as JSON. It is never executed or parsed."""

    value: str = Field(max_length=MAX_VALUE)


class CacheEntryBody(Answer):
    """A text under its key, and when it was written."""

    key: str
    value: str
    created_at: dt.datetime
