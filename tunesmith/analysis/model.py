"""What a candidate costs and whether it is worth a try, from its nest and its decisions.

A roofline with the terms that decide on CPUs (Zhu et al., "Roller", OSDI 2022; Qiao et al., "Pruner", 2024): the
instructions of the inner kernel, the traffic of each cache level from footprints, and how evenly tasks fill cores.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.kernel import Kernel, kernel
from tunesmith.analysis.nest import Nest
from tunesmith.analysis.running import Running, running
from tunesmith.analysis.seams import CoreShare
from tunesmith.analysis.shape import Shape, values_of
from tunesmith.space.base import Bools, Floats, Ints
from tunesmith.space.knobs import Knob


@dataclass(frozen=True)
class Part:
    """What one block costs, float64 [n] each.

    Attributes:
        tasks: steps of its parallel loops.
        compute: seconds of its arithmetic.
        transfers: seconds for each cache level that does not hold everything, innermost first.
        forks: seconds in which its parallel loops start, and find out where each task is.
        seams: seconds in which cores wait for lines that others write.
    """

    shape: Shape
    run: Running
    inner: Kernel
    tasks: Floats
    compute: Floats
    transfers: tuple[Floats, ...]
    forks: Floats
    seams: Floats
    exposed: float

    @functools.cached_property
    def seconds(self) -> Floats:
        """The longest of the times, part of the others, the starts and the seams."""
        times = (self.compute, *self.transfers)
        longest = np.maximum.reduce(times)
        rest: Floats = sum(times, -longest)
        return np.asarray(longest + self.exposed * rest + self.forks + self.seams)


class Costs:
    """A batch of candidates of one nest.

    Args:
        knobs: the sketch's knobs.
        choice: int64 [n, at least len(knobs)].

    Attributes:
        nest, choice, cpu: as given.
        n: number of candidates.
        values: what the knobs decide.
        resident: bytes of all buffers whose sizes are known, but for local ones.
    """

    def __init__(self, nest: Nest, knobs: Sequence[Knob], choice: Ints, cpu: CpuModel) -> None:
        self.nest, self.choice, self.cpu, self.n = nest, choice, cpu, len(choice)
        self.values = values_of(nest, knobs, choice)
        self._bytes = [
            0.0 if b.local else float(np.prod(b.shape, dtype=np.float64) * b.element_bytes) for b in nest.buffers
        ]
        self.resident = sum(self._bytes)

    @functools.cached_property
    def parts(self) -> list[Part]:
        """What each block costs, in the order of the nest."""
        started, shares = set[int](), list[CoreShare]()
        return [self._part(shape, run, started, shares) for shape, run in self._blocks]

    def feasible(self) -> Bools:
        """False for what need not be built: code that takes compilers long, accumulators far beyond the registers."""
        out = np.ones(self.n, dtype=np.bool_)
        for part in self.parts:
            out &= part.inner.code <= self.cpu.max_instructions
            if part.shape.block.update:
                out &= part.inner.needed <= self.cpu.max_spill * self.cpu.registers
        return out

    def seconds(self) -> Floats:
        """Estimated latency; good for ranks, not for figures."""
        return sum((part.seconds for part in self.parts), np.zeros(self.n))

    def excess(self) -> Floats:
        """Estimates, less the starts of threads, over what no schedule goes below; float64 [n], about 1 or more.

        That is when all lanes of all cores compute, or caches of level 2 bring each buffer once, whichever is longer.
        """
        cpu, computed = self.cpu, np.zeros(self.n)
        for part in self.parts:
            computed += part.shape.iterations * part.shape.block.operations
        cache = cpu.caches[:2][-1]
        limit = np.maximum(computed / (cpu.lanes() * cpu.pipes * cpu.clock), max(self.resident, 1.0) / cache.bandwidth)
        return np.asarray(sum((part.seconds - part.forks for part in self.parts), np.zeros(self.n)) / limit * cpu.cores)

    @functools.cached_property
    def _blocks(self) -> list[tuple[Shape, Running]]:
        shapes = [Shape.make(self.nest, block, self.values, self.n, self.cpu) for block in self.nest.blocks]
        return [(shape, running(shape, self.nest.marks, self.values, self.cpu)) for shape in shapes]

    @functools.cached_property
    def _own(self) -> Floats:
        """Bytes of the resident ones that one core touches, float64 [n]. Parallel loops share out what they move."""
        shares = [np.zeros(self.n) for _ in self.nest.buffers]
        for shape, run in self._blocks:
            for access in (shape.block.write, *shape.block.reads):
                steps = np.where(run.parallel & shape.moves(access), shape.extents, 1.0).prod(axis=0)
                shares[access.buffer] = np.maximum(shares[access.buffer], np.ceil(steps / self.cpu.cores) / steps)
        return sum((size * share for size, share in zip(self._bytes, shares, strict=True)), np.zeros(self.n))

    def _left(self, room: float, of_one_core: bool) -> Floats:
        """The part of what a run touches that the run before it left in a cache."""
        touched = self._own if of_one_core else np.full(self.n, self.resident)
        return np.minimum(room / np.maximum(touched, 1.0), 1.0)

    def _part(self, shape: Shape, run: Running, started: set[int], shares: list[CoreShare]) -> Part:
        cpu = self.cpu
        inner = kernel(shape, run, cpu)
        tasks = np.where(run.parallel, shape.extents, 1.0).prod(axis=0)
        speedup = tasks / np.ceil(tasks / cpu.cores)
        transfers, whole = [], shape.traffic(np.inf)
        for level, cache in enumerate(cpu.caches):
            room = cpu.cache_share * cache.size
            if self.resident <= room:  # runs follow each other: what fits is there already
                break
            outer = cpu.caches[level + 1] if level + 1 < len(cpu.caches) else None
            rate = cpu.bandwidth if outer is None else outer.bandwidth * speedup
            moved = shape.traffic(room, run.vector)
            there = np.minimum(whole, moved) * self._left(room, outer is not None)
            transfers.append((moved - there) / rate)
        compute = inner.times * inner.cycles / cpu.clock / speedup
        forks = self._forks(shape, run, started, tasks / speedup)
        mine = CoreShare(shape, run, cpu)
        between = cpu.seam_seconds * mine.seams() + mine.received(shares) / cpu.core_bandwidth
        shares.append(mine)
        return Part(shape, run, inner, tasks, compute, tuple(transfers), forks, between, cpu.exposed_share)

    def _forks(self, shape: Shape, run: Running, started: set[int], tasks: Floats) -> Floats:
        """Starts of the block's parallel loop and of its ``tasks`` a core, unless an earlier block had it."""
        first = next((at for at in range(len(shape.block.loops)) if run.parallel[at].any()), None)
        if first is None or shape.block.loops[first].number in started:
            return np.zeros(self.n)
        started.add(shape.block.loops[first].number)
        cycles = self.cpu.task_cycles + self.cpu.allocation_cycles * self._buffers(shape.block.loops[first].number)
        each = self.cpu.fork_seconds + tasks * cycles / self.cpu.clock
        return np.asarray(shape.before[first] * each)

    def _buffers(self, loop: int) -> int:
        """Buffers of one thread that are written inside of a loop."""
        inside = [block for block in self.nest.blocks if any(each.number == loop for each in block.loops)]
        return len({block.write.buffer for block in inside if self.nest.buffers[block.write.buffer].local})
