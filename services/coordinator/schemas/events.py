"""What routes answer about events."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pydantic import BaseModel


class EventBody(BaseModel):
    """Something that happened; ids only grow."""

    id: int
    job_id: str | None
    kind: str
    data: dict[str, Any]
    created_at: dt.datetime
