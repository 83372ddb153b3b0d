"""Jobs that a stack resumes, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def resumed(job: Mapping[str, Any]) -> str:
    """A job that goes on.

    Args:
        job: ``id``, ``name``, ``trials``, ``trials_budget``, and ``killed``: the stack before was.
    """
    budget = "" if job["trials_budget"] is None else f"/{job['trials_budget']}"
    left = "left by a stack that was killed" if job["killed"] else "left by an earlier stack"
    return f"{job['id']} ({job['name']}, {job['trials']}{budget} trials), {left}"
