"""Makes failures of outcomes that cannot be true; the rule is :mod:`tunesmith.measuring.plausibility`'s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tunesmith.measuring.plausibility import impossible
from tunesmith.messages import Calibration
from tunesmith.types import FailureKind, TensorSpec
from workers.protocol import RunOutcome


def check(outcome: RunOutcome, flops: float, args: Sequence[TensorSpec], calibration: Calibration | None) -> RunOutcome:
    """The outcome, or an ``IMPLAUSIBLE`` one whose message gives the numbers.

    Args:
        flops: floating-point operations of one run, 0 when unknown.
        calibration: the device's calibration; None checks signs alone.
    """
    if outcome.failure is not None:
        return outcome
    why = impossible(outcome.samples, flops, args, calibration)
    if why is None:
        return outcome
    return replace(outcome, samples=(), failure=FailureKind.IMPLAUSIBLE, message=why, stopped=None)
