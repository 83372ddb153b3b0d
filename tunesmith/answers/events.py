"""What routes answer about events."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tunesmith.answers.base import Answer


class EventBody(Answer):
    """Something that happened; ids only grow.

    ``formerly`` is what a kind was called until version 0.1, null for all others; it goes with the next minor version.
    """

    id: int
    job_id: str | None
    kind: str
    formerly: str | None
    data: dict[str, Any]
    created_at: dt.datetime
