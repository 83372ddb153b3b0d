"""Bounds of a job's budget, the same at every door."""

from __future__ import annotations

import math

from tunesmith.errors import InvalidBudget

MAX_TRIALS = 1_000_000
MAX_SECONDS = 30 * 24 * 3600.0
DEFAULT_TRIALS = 1000
"""Trials of a job that is submitted without any limit."""


def check_budget(trials: int | None, seconds: float | None) -> None:
    """Refuse limits that are zero, negative or absurd.

    Raises:
        InvalidBudget: naming the field, the value and the bounds.
    """
    if trials is not None and not 1 <= trials <= MAX_TRIALS:
        raise InvalidBudget(f"trials must be 1 to {MAX_TRIALS}, not {trials}", field="budget.trials", value=trials)
    if seconds is not None and not (math.isfinite(seconds) and 0 < seconds <= MAX_SECONDS):
        raise InvalidBudget(
            f"seconds must be more than 0 and at most {MAX_SECONDS:.0f} (30 days), not {seconds}",
            field="budget.seconds",
            value=seconds if math.isfinite(seconds) else str(seconds),
        )
