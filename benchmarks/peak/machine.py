"""The limits of this machine as values: measured in a child process, because a thread count is for a process's life."""

from __future__ import annotations

import math
import os
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.limits import Level, Peak
from benchmarks.harness.processes import ask
from benchmarks.peak.probe import Job
from tunesmith.host import cache_sizes
from workers.tvm_backend.build import calibration_kernels

PROBE = "benchmarks.peak.probe"
TIMEOUT = 300.0
MIB = 1 << 20
SMALLEST = 8192
"""Bytes a thread reads at least in :func:`sweep`."""


@dataclass(frozen=True)
class Rates:
    """Samples of one rate, in FLOP/s or bytes/s."""

    samples: tuple[float, ...]

    @property
    def best(self) -> float:
        """The fastest: a limit is what was reached once, and others on the machine only ever make it slower."""
        return max(self.samples)

    @property
    def median(self) -> float:
        """What is reached usually."""
        return statistics.median(self.samples)


@dataclass(frozen=True)
class Limits:
    """What was found for ``threads``.

    Attributes:
        flops: float32 multiply-adds.
        caches: bytes of each cache level that the threads' cores have, by level.
        reads: bandwidth by the number of bytes read again and again, ascending.
        narrow: products of narrow types that the machine has an instruction for, by precision.
    """

    threads: int
    flops: Rates
    caches: Mapping[int, int]
    reads: Mapping[int, Rates]
    narrow: Mapping[str, Rates] = field(default_factory=dict)

    def level(self, size: float) -> tuple[int, Rates]:
        """The read that stands for a cache of ``size`` bytes: the largest that fits in half of it; infinity: the last.

        Half, because the other half may hold what the system and the kernel's own partial sums need.
        """
        fitting = [at for at in self.reads if at <= size / 2] or [min(self.reads)]
        return fitting[-1], self.reads[fitting[-1]]

    @property
    def peak(self) -> Peak:
        """The limits that latencies are compared with."""
        levels = [Level(f"L{level}", size, self.level(size)[1].best) for level, size in sorted(self.caches.items())]
        levels.append(Level("memory", math.inf, self.level(math.inf)[1].best))
        return Peak(self.flops.best, tuple(levels), {name: rates.best for name, rates in self.narrow.items()})


def measure(threads: int, *, curve: bool = False, repeats: int = 10) -> Limits:
    """Measure the limits of ``threads`` cores; some seconds.

    Args:
        threads: at most as many as this process may run on.
        curve: read every power of two of bytes as well, for a plot.
        repeats: samples of every rate.

    Raises:
        MeasurementFailed: when the probe ends without an answer.
    """
    caches = cache_sizes(cores=sorted(os.sched_getaffinity(0))[:threads])
    memory = int(calibration_kernels.uncached_read(threads).work)
    sizes = sorted({*(size // 2 for size in caches.values()), *(sweep(threads, memory) if curve else ()), memory})
    with tempfile.TemporaryDirectory(prefix="tunesmith-peak-") as folder:
        job, what = Job(threads, tuple(sizes), repeats), f"the limits of {threads} threads could not be measured"
        found = ask(PROBE, job, Path(folder), TIMEOUT, what)
    flops = max((Rates(tuple(samples)) for samples in found["flops"]), key=lambda rates: rates.best)
    reads = {int(size): Rates(tuple(samples)) for size, samples in found["reads"]}
    narrow = {str(name): Rates(tuple(samples)) for name, samples in found["narrow"].items()}
    return Limits(threads, flops, caches, dict(sorted(reads.items())), narrow)


def sweep(threads: int, memory: int) -> list[int]:
    """Powers of two of bytes from what a core's first cache holds up to ``memory``."""
    first = SMALLEST * threads
    return [first << step for step in range(max(0, int(math.log2(memory / first))) + 1)]


def thread_counts(cores: int) -> list[int]:
    """Powers of two below ``cores``, and ``cores``."""
    return [1 << step for step in range(cores.bit_length()) if 1 << step < cores] + [cores]
