"""Whether a measured time can be true: no device is faster than its arithmetic and its loads and stores allow."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tunesmith.messages import Calibration
from tunesmith.types import FailureKind, TensorSpec
from workers.tvm_backend.measuring import RunOutcome

MARGIN = 2.0
"""How far beyond the measured peak a kernel may be: the peak may have been taken on a busy machine."""
BYTES_PER_FLOP = 4.0
"""Bytes that a core stores at most for each FLOP of its peak: with as many stores as multiply-adds of a vector in a
cycle it is 2, and 1 on most."""
SPEED: Mapping[str, float] = {
    "float64": 0.5, "float32": 1.0, "int64": 1.0, "int32": 1.0, "uint32": 1.0, "uint64": 1.0, "float16": 16.0,
    "bfloat16": 16.0, "int16": 4.0, "uint16": 4.0,
}  # fmt: skip
"""Peak of an element type over float32's, with a matrix unit (AMX, SME) where one exists for it."""
NARROW_SPEED = 32.0
"""The same for types of eight bits and fewer."""
BYTES: Mapping[str, int] = {"64": 8, "32": 4, "16": 2}


def check(
    outcome: RunOutcome, flops: float, args: Sequence[TensorSpec], calibration: Calibration | None
) -> RunOutcome:
    """The outcome, or an ``IMPLAUSIBLE`` one whose message gives the numbers.

    A time must be positive and finite; with a calibration, the median must leave time for ``flops`` at ``MARGIN``
    times the peak of the fastest element type among ``args``, and for storing the output, their last.
    Redundant operations that a compiler may leave out count as well, which is one more reason for the margin.

    Args:
        flops: floating-point operations of one run, 0 when unknown.
        calibration: of the device; None checks signs alone.
    """
    if outcome.failure is not None:
        return outcome
    odd = next((value for value in outcome.samples if not (math.isfinite(value) and value > 0)), None)
    if odd is not None or not outcome.samples:
        shown = "no time at all" if not odd else f"{odd:g} s"
        return _implausible(outcome, f"the device measured {shown}")
    if calibration is None:
        return outcome
    latency = statistics.median(outcome.samples)
    peak = MARGIN * calibration.peak_flops / min(1.0, calibration.drift)
    speed = max((_speed(spec.dtype) for spec in args), default=1.0)
    if flops > latency * peak * speed:
        return _implausible(outcome, (
            f"{latency:.3g} s for {flops:.4g} FLOP are {flops / latency / 1e9:.4g} GFLOP/s; the device does at most "
            f"{peak * speed / 1e9:.4g} ({MARGIN:g} times its measured peak, for {_fastest(args)})"
        ))  # fmt: skip
    stored = _bytes(args[-1]) if args else 0
    if stored > latency * peak * BYTES_PER_FLOP:
        return _implausible(outcome, (
            f"{latency:.3g} s for storing {stored} bytes are {stored / latency / 1e9:.4g} GB/s; the device's cores "
            f"store at most {peak * BYTES_PER_FLOP / 1e9:.4g}"
        ))  # fmt: skip
    return outcome


def _implausible(outcome: RunOutcome, message: str) -> RunOutcome:
    return replace(outcome, samples=(), failure=FailureKind.IMPLAUSIBLE, message=message, stopped=None)


def _speed(dtype: str) -> float:
    return SPEED.get(dtype, NARROW_SPEED)


def _fastest(args: Sequence[TensorSpec]) -> str:
    return max((spec.dtype for spec in args), key=_speed, default="float32")


def _bytes(spec: TensorSpec) -> int:
    """Bytes of a tensor; at least one for each element."""
    width = next((size for bits, size in BYTES.items() if spec.dtype.endswith(bits)), 1)
    return width * math.prod(spec.shape)
