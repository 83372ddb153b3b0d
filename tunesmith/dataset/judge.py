"""Which rows of a dataset file can be true: the others are quarantined, each for a reason. Pure."""

from __future__ import annotations

import datetime as dt
import enum
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunesmith.arithmetic import NARROW
from tunesmith.dataset.rows import RecordRow, canonical
from tunesmith.measuring.claims import LONGEST_SECONDS, SLACK
from tunesmith.measuring.plausibility import LEAST_SECONDS, fastest_device, impossible
from tunesmith.messages import Calibration
from tunesmith.names import PRECISIONS
from tunesmith.space.knobs import Knob
from tunesmith.types import FailureKind, StopReason, TensorSpec, Values

MOST_SAMPLES = 1000
DECISIONS_BYTES = 64_000
AHEAD = dt.timedelta(days=1)
"""Clocks differ, but no honest record was measured later than tomorrow."""


class Reason(str, enum.Enum):
    """Why a row is quarantined."""

    UNKNOWN_TARGET = "unknown_target"  # the file has none with that hash that is a target
    UNKNOWN_WORKLOAD = "unknown_workload"  # nor a module with that hash
    UNKNOWN_SKETCH = "unknown_sketch"
    UNKNOWN_ENVIRONMENT = "unknown_environment"
    DECISIONS = "decisions"  # not those that the sketch takes
    NUMBER = "number"  # a time that is no positive number
    MEDIAN = "median"  # the samples have another median
    OUTCOME = "outcome"  # neither samples nor a failure, or both, or one of an unknown kind
    TOO_FAST = "too_fast"  # no device of the target is so fast
    OVERSIZED = "oversized"
    TIME = "time"  # measured in the future


@dataclass(frozen=True)
class Named:
    """What a record names, as far as it is known; None where it is not.

    Attributes:
        knobs: the sketch's; empty for the default schedule.
        target: the JSON of its target.
        calibration: that of a device here with the target's class and the record's processor, if there is one.
    """

    args: Sequence[tuple[str, Sequence[int]]] | None
    flops: float
    target: Mapping[str, Any] | None
    knobs: Sequence[Knob] | None
    environment: Mapping[str, Any] | None
    calibration: Calibration | None = None


def quarantined(row: RecordRow, named: Named, now: dt.datetime) -> tuple[Reason, str] | None:
    """Why a row cannot be true, with the value that says so; None where it may be."""
    if named.target is None:
        return Reason.UNKNOWN_TARGET, f"target {row.target[:64]}"
    if named.args is None:
        return Reason.UNKNOWN_WORKLOAD, f"workload {row.workload[:64]}"
    if named.environment is None:
        return Reason.UNKNOWN_ENVIRONMENT, f"environment {row.environment[:64]}"
    if named.knobs is None:
        return Reason.UNKNOWN_SKETCH, f"sketch {str(row.sketch)[:64]}"
    if row.measured_at > now + AHEAD:
        return Reason.TIME, f"measured at {row.measured_at.isoformat()}"
    return _sized(row) or _decided(row, named.knobs) or _outcome(row) or _timed(row, named)


def _sized(row: RecordRow) -> tuple[Reason, str] | None:
    if len(row.samples) > MOST_SAMPLES:
        return Reason.OVERSIZED, f"{len(row.samples)} samples"
    size = len(canonical(list(row.decisions)))
    return (Reason.OVERSIZED, f"decisions of {size} bytes") if size > DECISIONS_BYTES else None


def _decided(row: RecordRow, knobs: Sequence[Knob]) -> tuple[Reason, str] | None:
    if len(row.decisions) != len(knobs):
        return Reason.DECISIONS, f"{len(row.decisions)} decisions for {len(knobs)} knobs"
    for knob, decision in zip(knobs, row.decisions, strict=True):
        try:
            knob.find([tuple(decision) if isinstance(decision, list) else decision])
        except (ValueError, TypeError, OverflowError):
            return Reason.DECISIONS, f"{str(decision)[:60]} for {knob}"
    return None


def _outcome(row: RecordRow) -> tuple[Reason, str] | None:
    if row.failure is not None and row.failure not in {kind.value for kind in FailureKind}:
        return Reason.OUTCOME, f"failure {row.failure[:60]!r}"
    if row.stopped is not None and row.stopped not in {reason.value for reason in StopReason}:
        return Reason.OUTCOME, f"stopped {row.stopped[:60]!r}"
    if row.precision not in PRECISIONS:
        return Reason.OUTCOME, f"precision {row.precision[:60]!r}"
    if bool(row.samples) == (row.failure is not None) or (row.latency is None) != (row.failure is not None):
        return Reason.OUTCOME, f"failure {row.failure} with {len(row.samples)} samples and latency {row.latency}"
    return None


def _timed(row: RecordRow, named: Named) -> tuple[Reason, str] | None:
    for name in ("build_seconds", "run_seconds", "device_seconds"):
        value = getattr(row, name)
        if not (math.isfinite(value) and 0 <= value <= LONGEST_SECONDS):
            return Reason.NUMBER, f"{name} {value}"
    if row.latency is None:
        return None
    for value in (*row.samples, row.latency):
        if not (math.isfinite(value) and 0 < value <= LONGEST_SECONDS):
            return Reason.NUMBER, f"{value} s"
    median = statistics.median(row.samples)
    if not math.isclose(median, row.latency, rel_tol=1e-9):
        return Reason.MEDIAN, f"latency {row.latency:g} s, median {median:g} s"
    return _plausible(row, named)


def _plausible(row: RecordRow, named: Named) -> tuple[Reason, str] | None:
    if min(row.samples) < LEAST_SECONDS:
        return Reason.TOO_FAST, f"{min(row.samples):g} s"
    assert named.target is not None
    assert named.args is not None
    kind, cores = str(named.target.get("kind", "")), int(named.target.get("num-cores") or 1)
    specs = [TensorSpec(dtype, tuple(shape), values=narrow_values(row.precision, dtype)) for dtype, shape in named.args]
    calibration = named.calibration or fastest_device(kind, cores)
    why = impossible([SLACK * value for value in row.samples], named.flops, specs, calibration)
    return None if why is None else (Reason.TOO_FAST, why)


def narrow_values(precision: str, dtype: str) -> Values | None:
    """What a job of a precision stores in an argument of a type, where that is the bits of a narrow type."""
    narrow = NARROW.get(precision)
    if narrow is None or dtype != narrow.storage:
        return None
    return Values(-math.inf, math.inf, bits_of=narrow.numbers)


def arguments_of(family: str, args: Sequence[Any], precision: str) -> list[TensorSpec]:
    """Arguments of a workload; what a job of a precision stores in its way are operands of a narrow type.

    Args:
        family: the operator.
        args: type and shape of each, the output last.
    """
    narrow = NARROW.get(precision)
    # In other families of a quantised model bytes are moved, or read and written by what computes in float32.
    wide = narrow is not None and not narrow.rounded and not family.endswith(narrow.products)
    return [
        TensorSpec(dtype, tuple(shape), values=None if wide else narrow_values(precision, dtype))
        for dtype, shape in args
    ]
