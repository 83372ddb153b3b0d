"""Bounds of a job's budget, the same at every door."""

from __future__ import annotations

import math

from tunesmith.errors import InvalidBudget

MAX_TRIALS = 1_000_000
MAX_SECONDS = 30 * 24 * 3600.0
DEFAULT_TRIALS = 1000
"""Trials of a job that is submitted without any limit."""


UNMEASURED = 0
"""Trials of a job that answers at once, without measuring."""


def check_budget(trials: int | None, seconds: float | None, least: int = UNMEASURED) -> None:
    """Refuse limits that are negative or absurd, and seconds for a job that measures nothing.

    Args:
        least: fewest trials that make sense.

    Raises:
        InvalidBudget: naming the field, the value and the bounds.
    """
    if trials is not None and not least <= trials <= MAX_TRIALS:
        raise InvalidBudget(
            f"trials must be {least} to {MAX_TRIALS}, not {trials}", field="budget.trials", value=trials
        )
    if seconds is not None and not (math.isfinite(seconds) and 0 < seconds <= MAX_SECONDS):
        raise InvalidBudget(
            f"seconds must be more than 0 and at most {MAX_SECONDS:.0f} (30 days), not {seconds}",
            field="budget.seconds",
            value=seconds if math.isfinite(seconds) else str(seconds),
        )
    if trials == UNMEASURED and seconds is not None:
        raise InvalidBudget(
            "a job of 0 trials answers at once, without measuring: leave the seconds out, or give trials",
            field="budget.seconds",
            value=seconds,
        )
