"""What the static model must know of a CPU."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
TYPICAL_CACHES = (32 * KIB, 1 * MIB, 16 * MIB)
"""Bytes for one core, level 1 first."""


@dataclass(frozen=True)
class Cache:
    """A level of data cache.

    Attributes:
        size: bytes that one core can use.
        bandwidth: bytes/s at which one core reads what the next level inwards lacks and this one holds.
    """

    size: int
    bandwidth: float


@dataclass(frozen=True)
class DeviceDescription:
    """A CPU, in figures.

    Attributes:
        cores: that run a kernel's tasks.
        vector_bytes, registers: width in bytes and number of the vector registers.
        peak_flops: FLOP/s of all cores, a float32 multiply-add counting as two.
        bandwidth: bytes/s of memory, all cores together.
        caches: innermost first.
        pipes: vector multiply-adds that a core starts in a cycle.
        latency: cycles until the result of one can be used.
        loads, stores: vector loads and stores that a core starts in a cycle.
        width: instructions that a core starts in a cycle.
        call: cycles of a scalar library function.
        code_bytes: bytes of instructions that a core keeps near.
        fork_seconds: to start a parallel loop and wait for its end.
    """

    cores: int
    vector_bytes: int
    registers: int
    peak_flops: float
    bandwidth: float
    caches: tuple[Cache, ...]
    pipes: int = 2
    latency: int = 4
    loads: int = 2
    stores: int = 1
    width: int = 5
    call: float = 20.0
    code_bytes: int = 32 * KIB
    fork_seconds: float = 3e-6

    @property
    def clock(self) -> float:
        """Cycles a second that explain the peak."""
        return self.peak_flops / (2 * self.cores * self.pipes * self.lanes(4))

    def lanes(self, element_bytes: int) -> int:
        """Elements of one register."""
        return max(1, self.vector_bytes // element_bytes)


def default_caches(clock: float, sizes: tuple[int, ...] = TYPICAL_CACHES) -> tuple[Cache, ...]:
    """Caches of ``sizes`` bytes from level 1 outwards: 128, 32 and 16 bytes a cycle, the figures of current cores."""
    rates = (128.0, 32.0, 16.0)
    return tuple(Cache(size, clock * rates[min(level, 2)]) for level, size in enumerate(sizes))


def describe_cpu(
    cores: int,
    vector_bytes: int,
    registers: int,
    *,
    peak_flops: float | None = None,
    bandwidth: float | None = None,
    cache_sizes: tuple[int, ...] = (),
    pipes: int = 2,
) -> DeviceDescription:
    """A CPU from what is known of it; the rest is typical of current cores.

    Args:
        peak_flops: FLOP/s of all cores as measured; None: at 3 GHz.
        bandwidth: bytes/s of memory as measured; None: 20 GB/s for the first core, 5 for each other one.
        cache_sizes: bytes for one core, level 1 first; none: typical ones.
    """
    peak = peak_flops if peak_flops else 3e9 * 2 * cores * pipes * max(1, vector_bytes // 4)
    clock = peak / (2 * cores * pipes * max(1, vector_bytes // 4))
    memory = bandwidth if bandwidth else 20e9 + 5e9 * (cores - 1)
    return DeviceDescription(
        cores, vector_bytes, registers, peak, memory, default_caches(clock, cache_sizes or TYPICAL_CACHES), pipes=pipes
    )
