"""Names of resources: their ids, and the URLs of problem types."""

from __future__ import annotations

import os
import uuid
from typing import Final

JOB: Final = "j"
MODEL: Final = "m"
COST_MODEL: Final = "cm"
RECORD_IMPORT: Final = "ri"


def new_id(kind: str) -> str:
    """A fresh id of a resource, such as ``j-0123456789abcdef``; ``kind``: one of the names above."""
    return f"{kind}-{uuid.uuid4().hex[:16]}"


def process_name(host: str) -> str:
    """What a worker calls itself in claims and reports; no other process on any host has the name."""
    return f"{host}-{os.getpid()}-{uuid.uuid4().hex[:6]}"


def problem_url(code: str) -> str:
    """The ``type`` of a problem object with an error code."""
    return f"https://tunesmith.dev/problems/{code.replace('_', '-')}"
