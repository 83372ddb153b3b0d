"""What the comparison of a model's outputs came to. Pure, and without NumPy."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

LEAST_DEPENDENCE = 1e-6
"""Outputs that change by less than this part of themselves from one input to another show no wrong schedule."""


NARROW_TOLERANCE = 1e-2
"""Largest distance of right outputs in bfloat16 from float32's (``agreement.distance``). Convolutional networks and
encoders were off by 0.4 to 0.5 %."""


MOST_DISTANCE = 1e6
"""A larger distance is told as this: JSON knows no infinity."""


class CheckState(str, enum.Enum):
    """What is known of a tuned model's outputs."""

    AGREE = "agree"  # with those of the untuned model
    DIFFER = "differ"
    NOTHING_CHECKED = "nothing_checked"  # they hardly depend on the inputs, so that a wrong schedule would not show
    NOT_COMPARED = "not_compared"  # no outputs were computed, as on a simulated device


def judge(error: float | None, tolerance: float, signal: float | None) -> CheckState:
    """The state of a check.

    Args:
        error: error of the outputs against the signal; None if none were compared.
        tolerance: the largest error that counts as right.
        signal: part of themselves by which right outputs of two inputs differ; None where that is not known.
    """
    if error is None:
        return CheckState.NOT_COMPARED
    if not error <= tolerance:  # not a number is wrong, too
        return CheckState.DIFFER
    if signal is not None and not signal >= LEAST_DEPENDENCE:
        return CheckState.NOTHING_CHECKED
    return CheckState.AGREE


def against_float32(references: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first of a job's references, as the API has them, with which outputs of a narrow precision were compared."""
    return next((each for each in references if each.get("error") is not None), None)
