"""What a machine can reach at best, and how much of it a kernel or a model reaches.

The roofline model (Williams, Waterman and Patterson, CACM 2009): nothing runs faster than its operations at the peak
rate, nor faster than its data at the bandwidth of the nearest store that holds them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Level:
    """A cache level, all its instances that the threads use together, or the memory.

    Attributes:
        size: bytes that it holds; infinite for the memory.
        bandwidth: bytes/s of reading from it.
    """

    name: str
    size: float
    bandwidth: float


@dataclass(frozen=True)
class Peak:
    """The limits of a machine, for a number of threads.

    Attributes:
        flops: FLOP/s of float32 multiply-adds.
        levels: nearest first, the memory last.
        narrow: FLOP/s of narrow types, by precision; without those that the machine has no instruction for.
    """

    flops: float
    levels: tuple[Level, ...]
    narrow: Mapping[str, float] = field(default_factory=dict)

    def of(self, precision: str) -> Peak:
        """The limits of kernels of a precision: without an instruction of its own, it computes in float32."""
        return replace(self, flops=self.narrow.get(precision, self.flops))

    def at_best(self, other: Peak) -> Peak:
        """The same machine's limits from two measurements: a shared machine is slow at times, and never too fast."""
        levels = [max(pair, key=lambda level: level.bandwidth) for pair in zip(self.levels, other.levels, strict=True)]
        narrow = {name: max(flops, other.narrow.get(name, 0.0)) for name, flops in self.narrow.items()}
        return Peak(max(self.flops, other.flops), tuple(levels), {**other.narrow, **narrow})

    def level(self, bytes_: float) -> Level:
        """The nearest level that holds ``bytes_``; the last when none does."""
        return next((level for level in self.levels if bytes_ <= level.size), self.levels[-1])


def least_seconds(flops: float, bytes_: float, peak: Peak) -> float:
    """The time that the machine needs at best for ``flops`` operations on ``bytes_`` of distinct data.

    Data that fit into a cache are taken to be there already, as they are when a kernel is timed again and again.
    """
    return max(flops / peak.flops, bytes_ / peak.level(bytes_).bandwidth)


def binding(flops: float, bytes_: float, peak: Peak) -> str:
    """What :func:`least_seconds` comes from: ``arithmetic``, or the name of the level that is read."""
    level = peak.level(bytes_)
    return "arithmetic" if flops / peak.flops >= bytes_ / level.bandwidth else level.name


def share_of_peak(flops: float, bytes_: float, seconds: float, peak: Peak) -> float:
    """The share of the machine's limit that a latency reaches: 1 is the limit itself.

    Args:
        flops: floating-point operations of one run.
        bytes_: distinct bytes that one run reads or writes.
        seconds: the latency, above 0.
        peak: the machine's limits, for the threads that were used.

    Raises:
        ValueError: for a latency that is not above 0.
    """
    if not seconds > 0:
        raise ValueError(f"a latency is above 0 seconds, not {seconds}")
    return least_seconds(flops, bytes_, peak) / seconds
