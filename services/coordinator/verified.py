"""What is known of a schedule's numerics: its own check when it was confirmed, or that of the whole model."""

from __future__ import annotations

from typing import Any

from db.models import Evaluation
from services.coordinator.schemas.jobs import Verified
from tunesmith.messages import Confirmation


def of_schedule(confirmation: dict[str, Any] | None) -> Verified | None:
    """The check of a champion on its own, from its record's ``confirmation``.

    None where it has none: it was not asked for, its default schedule does not run, or the record is older than
    confirmations are.
    """
    found = Confirmation.model_validate(confirmation) if confirmation is not None else None
    if found is None or found.error is None or not found.won:
        return None
    return Verified(
        error=found.error, tolerance=found.tolerance, definition="max|a-b| / max|b|",
        reference="default schedule, same inputs",
    )  # fmt: skip


def of_model(evaluation: Evaluation | None) -> Verified | None:
    """The check of the compiled model; None before it."""
    if evaluation is None or evaluation.output_error is None:
        return None
    return Verified(
        error=evaluation.output_error, tolerance=evaluation.output_tolerance,
        definition="max|tuned(x) - untuned(x)| / max|untuned(x) - untuned(x')|",
        reference="the whole model with default schedules, same inputs",
    )  # fmt: skip
