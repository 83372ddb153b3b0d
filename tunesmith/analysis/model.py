"""What a candidate costs and whether it is worth a try, from its nest and its decisions.

A roofline with the terms that decide on CPUs (Zhu et al., "Roller", OSDI 2022; Qiao et al., "Pruner", 2024): the
instructions of the inner kernel, the traffic of each cache level from footprints, and how evenly tasks fill cores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.kernel import Kernel, kernel
from tunesmith.analysis.nest import Block, Nest
from tunesmith.analysis.running import Running, running
from tunesmith.analysis.shape import Shape, Values, values_of
from tunesmith.space.base import Bools, Floats, Ints
from tunesmith.space.knobs import Knob


class Costs:
    """A batch of candidates of one nest.

    Args:
        knobs: the sketch's knobs.
        choice: int64 [n, at least len(knobs)].
    """

    def __init__(self, nest: Nest, knobs: Sequence[Knob], choice: Ints, cpu: CpuModel) -> None:
        self._nest, self._cpu, self._n = nest, cpu, len(choice)
        values = values_of(nest, knobs, choice)
        self._parts = [self._part(block, values) for block in nest.blocks]
        self._resident = float(sum(np.prod(b.shape, dtype=np.float64) * b.element_bytes for b in nest.buffers))

    def _part(self, block: Block, values: Values) -> tuple[Shape, Running, Kernel]:
        shape = Shape.make(self._nest, block, values, self._n, self._cpu)
        run = running(shape, self._nest.marks, values, self._cpu)
        return shape, run, kernel(shape, run, self._cpu)

    def feasible(self) -> Bools:
        """False for what need not be built: code that takes compilers long, accumulators far beyond the registers."""
        out = np.ones(self._n, dtype=np.bool_)
        for shape, _, inner in self._parts:
            out &= inner.code <= self._cpu.max_instructions
            if shape.block.update:
                out &= inner.needed <= self._cpu.max_spill * self._cpu.registers
        return out

    def seconds(self) -> Floats:
        """Estimated latency; good for ranks, not for figures."""
        started: set[int] = set()
        return sum((self._block(part, started) for part in self._parts), np.zeros(self._n))

    def _block(self, part: tuple[Shape, Running, Kernel], started: set[int]) -> Floats:
        shape, run, inner = part
        cpu = self._cpu
        tasks = np.where(run.parallel, shape.extents, 1.0).prod(axis=0)
        speedup = tasks / np.ceil(tasks / cpu.cores)
        times = [inner.times * inner.cycles / cpu.clock / speedup]
        for level, cache in enumerate(cpu.caches):
            if self._resident <= cpu.cache_share * cache.size:  # runs follow each other: what fits is there already
                break
            outer = cpu.caches[level + 1] if level + 1 < len(cpu.caches) else None
            rate = cpu.bandwidth if outer is None else outer.bandwidth * speedup
            times.append(shape.traffic(cpu.cache_share * cache.size) / rate)
        longest = np.maximum.reduce(times)
        rest: Floats = sum(times, -longest)
        return np.asarray(longest + cpu.exposed_share * rest + self._forks(shape, run, started))

    def _forks(self, shape: Shape, run: Running, started: set[int]) -> Floats:
        """Starts of the block's parallel loop, unless an earlier block had it."""
        first = next((at for at in range(len(shape.block.loops)) if run.parallel[at].any()), None)
        if first is None or shape.block.loops[first].number in started:
            return np.zeros(self._n)
        started.add(shape.block.loops[first].number)
        return np.asarray(shape.before[first] * self._cpu.fork_seconds)
