"""Whether a measured time can be true: no device is faster than its arithmetic and its loads and stores allow. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from tunesmith.arithmetic import NARROW, precision_of
from tunesmith.messages import Calibration
from tunesmith.names import INT8
from tunesmith.types import TensorSpec

MARGIN = 2.0
"""How far beyond the measured peak a kernel may be: the peak may have been taken on a busy machine."""
BYTES_PER_FLOP = 4.0
"""Bytes that a core stores at most for each FLOP of its peak. With as many stores as multiply-adds of a vector in a
cycle it is 2, and 1 on most."""
SPEED: Mapping[str, float] = {
    "float64": 0.5,
    "float32": 1.0,
    "int64": 1.0,
    "int32": 1.0,
    "uint32": 1.0,
    "uint64": 1.0,
    "float16": 16.0,
    "bfloat16": 16.0,
    "int16": 4.0,
    "uint16": 4.0,
}
"""Peak of an element type over float32's, with a matrix unit (AMX, SME) where one exists for it. Tensors that hold
operands of a narrow type have the peak that was measured instead."""
NARROW_SPEED = 32.0
"""The same for types of eight bits and fewer."""
BYTES: Mapping[str, int] = {"64": 8, "32": 4, "16": 2}

LEAST_SECONDS = 1e-9
"""No call of a function returns sooner, whatever it computes."""
CORE_FLOPS = 5e11
"""Float32 FLOP/s that no core of a CPU exceeds: two 512-bit multiply-adds a cycle at 6 GHz are 3.8e11."""
CHIP_FLOPS = 1e15
"""The same for a device of another kind, matrix units left out (``SPEED`` adds them)."""
CHIP_BANDWIDTH = 5e13
"""Bytes/s that no device reads from its memory."""
HISTORY = 64.0
"""A later calibration finds at most so many times the speed of the first one, which may have been disturbed. A machine
that stands still makes each sample a hundred times as long; how fast a device can be has limits of its own."""
DRIFTS = (0.1, 100.0)
"""Between which a device may have become faster or slower since its first calibration."""
MOST_NOISE = 10.0
"""Share by which equal medians differ at most: more is no better to know."""


def impossible(
    samples: Sequence[float], flops: float, args: Sequence[TensorSpec], calibration: Calibration | None
) -> str | None:
    """Why the samples cannot be true, with the numbers; None where they can.

    A time must be positive and finite; with a calibration, the median must leave time for ``flops`` at ``MARGIN``
    times the peak of the fastest element type among ``args``, and for storing the output, their last. Bits of a narrow
    type, and bytes next to weights of a product of bytes, are as fast as the calibration found its instruction, and no
    faster than float32 where there is none.
    Redundant operations that a compiler may leave out count as well, which is one more reason for the margin.

    Args:
        samples: seconds.
        flops: floating-point operations of one run, 0 when unknown.
        calibration: the device's calibration; None checks signs alone.
    """
    odd = next((value for value in samples if not (math.isfinite(value) and value > 0)), None)
    if odd is not None or not samples:
        return f"the device measured {'no time at all' if not odd else f'{odd:g} s'}"
    if calibration is None:
        return None
    latency = statistics.median(samples)
    peak = MARGIN * calibration.peak_flops / min(1.0, calibration.drift)
    speed = peak_ratio(args, calibration)
    if flops > latency * peak * speed:
        return (
            f"{latency:.3g} s for {flops:.4g} FLOP are {flops / latency / 1e9:.4g} GFLOP/s; the device does at most "
            f"{peak * speed / 1e9:.4g} ({MARGIN:g} times its measured peak, for "
            f"{_fastest(args, calibration)})"
        )
    stored = _bytes(args[-1]) if args else 0
    if stored > latency * peak * BYTES_PER_FLOP:
        return (
            f"{latency:.3g} s for storing {stored} bytes are {stored / latency / 1e9:.4g} GB/s; the device's cores "
            f"store at most {peak * BYTES_PER_FLOP / 1e9:.4g}"
        )
    return None


def peak_ratio(args: Sequence[TensorSpec], calibration: Calibration) -> float:
    """Peak of the fastest element type among a program's arguments over float32's."""
    return max((_speed(spec, args, calibration) for spec in args), default=1.0)


def least_seconds(flops: float, args: Sequence[TensorSpec], calibration: Calibration, cores: int) -> float:
    """The roofline bound of a program: seconds that a device needs at best, at the peak that was measured.

    That is for its operations, or for reading and writing each argument once where no cache of the device holds them.
    After Williams, Waterman and Patterson, CACM 2009.

    Args:
        flops: floating-point operations of one run.
        args: the program's arguments, the output last.
        calibration: the device's calibration.
        cores: number of cores that the program may use.
    """
    stored, held = sum(map(_bytes, args)), cores * sum(calibration.cache_sizes)
    moving = stored / calibration.bandwidth if held and stored > held else 0.0
    return max(flops / (calibration.peak_flops * peak_ratio(args, calibration)), moving)


def fastest_device(kind: str, cores: int) -> Calibration:
    """What no device of a kind exceeds, for one whose calibration is not known.

    Args:
        kind: the target's kind, for example ``llvm``.
        cores: number of cores, for a CPU.
    """
    flops = CORE_FLOPS * max(1, cores) if kind == "llvm" else CHIP_FLOPS
    return Calibration(
        peak_flops=flops,
        narrow_flops={precision: each.most * flops for precision, each in NARROW.items()},
        bandwidth=CHIP_BANDWIDTH,
        noise_floor=0.0,
        reference_seconds=1.0,
        latest_seconds=1.0,
        measured_at="",
        drift=1.0,
    )


def impossible_calibration(
    found: Calibration, kind: str, cores: int, first: tuple[float, float] | None = None
) -> str | None:
    """Why a calibration cannot be true; None where it can.

    Args:
        found: the calibration.
        kind: kind of the device's target.
        cores: number of cores, for a CPU.
        first: FLOP/s and bytes/s that the device's first calibration found; None: this is the first.
    """
    limit = fastest_device(kind, cores)
    bounds = {
        "peak_flops": (0.0, limit.peak_flops),
        "bandwidth": (0.0, limit.bandwidth),
        "noise_floor": (-1.0, MOST_NOISE),
        "reference_seconds": (LEAST_SECONDS, 1e3),
        "latest_seconds": (LEAST_SECONDS, 1e5),
        "drift": DRIFTS,
    }
    for name, (low, high) in bounds.items():
        value = getattr(found, name)
        if not low < value <= high:
            return f"{name} {value:g} lies outside of {max(low, 0.0):g} to {high:g}"
    for precision, value in found.narrow_flops.items():
        most = limit.narrow_flops.get(precision, 0.0)
        if not 0.0 < value <= most:
            return f"narrow_flops of {precision!r}, {value:g}, lie outside of 0 to {most:g}"
    ratio = found.latest_seconds / found.reference_seconds
    if not math.isclose(found.drift, ratio, rel_tol=1e-3):
        return f"the drift {found.drift:g} is not the ratio {ratio:g} of its latencies"
    for now, then, name in zip((found.peak_flops, found.bandwidth), first or (), ("FLOP/s", "bytes/s"), strict=False):
        if now > HISTORY * then:
            return f"{now:.4g} {name} are more than {HISTORY:g} times the {then:.4g} of the device's first calibration"
    return None


def told_latency(latest: float, reference: float) -> float:
    """Seconds for which a calibration kernel runs: a machine that stood still for a while is slow, and no liar.

    Args:
        latest: what it took now.
        reference: what it took first; the two may differ by ``DRIFTS``.
    """
    low, high = DRIFTS
    return min(max(latest, 1.01 * low * reference), high * reference)


def _speed(spec: TensorSpec, args: Sequence[TensorSpec], calibration: Calibration) -> float:
    """Peak of a tensor's type over float32's; ``args`` are all arguments of its program."""
    narrow = _operands(spec)
    if not narrow and _bytes_of(spec) == 1:  # codes are not marked: other operators have them, too
        narrow = next((found for found in map(_operands, args) if found == INT8), "")
    if not narrow:
        return SPEED.get(spec.dtype, NARROW_SPEED)
    return max(1.0, calibration.narrow_flops.get(precision_of(narrow), 0.0) / calibration.peak_flops)


def _operands(spec: TensorSpec) -> str:
    """The narrow type whose operands of a product a tensor holds, as far as that is known."""
    return spec.values.bits_of if spec.values is not None else ""


def _fastest(args: Sequence[TensorSpec], calibration: Calibration) -> str:
    if not args:
        return "float32"
    fastest = max(args, key=lambda spec: _speed(spec, args, calibration))
    return "int8" if any(_operands(spec) == INT8 for spec in args) and _bytes_of(fastest) == 1 else fastest.meaning


def _bytes(spec: TensorSpec) -> int:
    """Bytes of a tensor; at least one for each element."""
    return _bytes_of(spec) * math.prod(spec.shape)


def _bytes_of(spec: TensorSpec) -> int:
    """Bytes of an element; at least one."""
    return next((size for bits, size in BYTES.items() if spec.dtype.endswith(bits)), 1)
