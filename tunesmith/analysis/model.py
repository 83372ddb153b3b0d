"""What a candidate costs and whether it is worth a try, from its nest and its decisions.

A roofline with the terms that decide on CPUs (Zhu et al., "Roller", OSDI 2022; Qiao et al., "Pruner", 2024): the
instructions of the inner kernel, the traffic of each cache level from footprints, and how evenly tasks fill cores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tunesmith.analysis.device import DeviceDescription
from tunesmith.analysis.kernel import Kernel, kernel
from tunesmith.analysis.nest import Block, Nest
from tunesmith.analysis.running import Running, running
from tunesmith.analysis.shape import Shape, Values, values_of
from tunesmith.space.base import Bools, Floats, Ints
from tunesmith.space.knobs import Knob

SHARE = 0.75
"""Share of a cache that one working set can have. Conflicts and other reads take the rest."""
OVERLAP = 0.35
"""Part of the shorter times that the longest one does not hide."""
MOST_INSTRUCTIONS = 4000.0
"""Largest number of straight-line instructions. LLVM takes about a millisecond for each, or somewhat more."""
MOST_SPILLED = 1.5
"""Registers that a kernel may want, in registers that there are."""


class Costs:
    """A batch of candidates of one nest.

    Args:
        knobs: the sketch's knobs.
        choice: int64 [n, at least len(knobs)].
    """

    def __init__(self, nest: Nest, knobs: Sequence[Knob], choice: Ints, device: DeviceDescription) -> None:
        self._nest, self._device, self._n = nest, device, len(choice)
        values = values_of(nest, knobs, choice)
        self._parts = [self._part(block, values) for block in nest.blocks]
        self._resident = float(sum(np.prod(b.shape, dtype=np.float64) * b.element_bytes for b in nest.buffers))

    def _part(self, block: Block, values: Values) -> tuple[Shape, Running, Kernel]:
        shape = Shape.make(self._nest, block, values, self._n)
        written = self._nest.buffers[block.write.buffer]
        run = running(shape, self._nest.marks, values, self._device.lanes(written.element_bytes))
        return shape, run, kernel(shape, run, self._device)

    def feasible(self) -> Bools:
        """False for what need not be built: code that takes compilers long, accumulators far beyond the registers."""
        out = np.ones(self._n, dtype=np.bool_)
        for shape, _, inner in self._parts:
            out &= inner.code <= MOST_INSTRUCTIONS
            if shape.block.update:
                out &= inner.needed <= MOST_SPILLED * self._device.registers
        return out

    def seconds(self) -> Floats:
        """Estimated latency; good for ranks, not for figures."""
        started: set[int] = set()
        return sum((self._block(part, started) for part in self._parts), np.zeros(self._n))

    def _block(self, part: tuple[Shape, Running, Kernel], started: set[int]) -> Floats:
        shape, run, inner = part
        device = self._device
        tasks = np.where(run.parallel, shape.extents, 1.0).prod(axis=0)
        speedup = tasks / np.ceil(tasks / device.cores)
        times = [inner.times * inner.cycles / device.clock / speedup]
        for level, cache in enumerate(device.caches):
            if self._resident <= SHARE * cache.size:  # runs follow each other: what fits is there already
                break
            outer = device.caches[level + 1] if level + 1 < len(device.caches) else None
            rate = device.bandwidth if outer is None else outer.bandwidth * speedup
            times.append(shape.traffic(SHARE * cache.size) / rate)
        longest = np.maximum.reduce(times)
        rest: Floats = sum(times, -longest)
        return np.asarray(longest + OVERLAP * rest + self._forks(shape, run, started))

    def _forks(self, shape: Shape, run: Running, started: set[int]) -> Floats:
        """Starts of the block's parallel loop, unless an earlier block had it."""
        first = next((at for at in range(len(shape.block.loops)) if run.parallel[at].any()), None)
        if first is None or shape.block.loops[first].number in started:
            return np.zeros(self._n)
        started.add(shape.block.loops[first].number)
        return np.asarray(shape.before[first] * self._device.fork_seconds)


def constraints(nest: Nest, knobs: Sequence[Knob], choice: Ints, device: DeviceDescription) -> Bools:
    """Which candidates are worth building, bool [n]."""
    return Costs(nest, knobs, choice, device).feasible()


def estimate(nest: Nest, knobs: Sequence[Knob], choice: Ints, device: DeviceDescription) -> Floats:
    """Estimated seconds, float64 [n]."""
    return Costs(nest, knobs, choice, device).seconds()
