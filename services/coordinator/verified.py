"""What is known of a schedule's numerics: its own check when it was confirmed, or that of the whole model."""

from __future__ import annotations

from typing import Any

from db.models import Evaluation
from tunesmith.answers.jobs import CheckBody, Verified
from tunesmith.measuring.checked import CheckState, judge
from tunesmith.messages import Confirmation
from tunesmith.states import WorkState, is_final

ALLOWED = 0.01
"""Tolerance of evaluations that are older than theirs are stored."""


def of_schedule(confirmation: dict[str, Any] | None) -> Verified | None:
    """The check of a champion on its own, from its record's ``confirmation``.

    None where it has none: it was not asked for, its default schedule does not run, or the record is older than
    confirmations are.
    """
    found = Confirmation.model_validate(confirmation) if confirmation is not None else None
    if found is None or found.error is None or not found.won:
        return None
    return Verified(
        error=found.error,
        tolerance=found.tolerance,
        definition="max|a-b| / max|b|",
        reference="default schedule, same inputs",
    )


def of_model(evaluation: Evaluation | None) -> Verified | None:
    """The check of the compiled model; None before it, and where it checked nothing."""
    found = check(evaluation)
    if evaluation is None or evaluation.output_error is None or found is None:
        return None
    if found.state is CheckState.NOTHING_CHECKED:
        return None
    return Verified(
        error=evaluation.output_error,
        tolerance=evaluation.output_tolerance,
        definition="max|tuned(x) - untuned(x)| / max|untuned(x) - untuned(x')|",
        reference="the whole model with default schedules, same inputs",
    )


def check(evaluation: Evaluation | None) -> CheckBody | None:
    """What the check of the compiled model came to; None before its end, and where it broke off."""
    if evaluation is None or not is_final(evaluation.state):
        return None
    if evaluation.state is not WorkState.DONE and evaluation.output_error is None:
        return None
    allowed = ALLOWED if evaluation.output_tolerance is None else evaluation.output_tolerance
    return CheckBody(
        state=judge(evaluation.output_error, allowed, evaluation.output_signal),
        error=evaluation.output_error,
        tolerance=evaluation.output_tolerance,
        signal=evaluation.output_signal,
    )
