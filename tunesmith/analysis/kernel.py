"""The innermost straight code of a block: instructions, registers, and cycles that they take on a core.

After the analyses that hand-tuned kernels rest on: accumulators stay in registers while the loops around them do not
move them (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008), and there must be as many
independent ones as latency times throughput (Low et al., "Analytical modeling is enough for high-performance BLIS",
2016).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.nest import Access
from tunesmith.analysis.running import Running, along, unbroken
from tunesmith.analysis.shape import Shape
from tunesmith.space.base import Bools, Floats

WAITING = 4.0
"""Registers of an operand that are loaded before they are needed."""


@dataclass(frozen=True)
class Kernel:
    """Straight code, float64 [n] each.

    Attributes:
        times: how often it runs.
        operations: arithmetic instructions.
        accumulators: registers that results take.
        needed: registers, operands included.
        loads, stores: accesses to memory. What rarely moves in and out of registers is spread over its stay.
        cycles: cycles of one run.
        code: instructions; of one vector, where the straight code is the body of a loop that a compiler vectorised.
    """

    times: Floats
    operations: Floats
    accumulators: Floats
    needed: Floats
    loads: Floats
    stores: Floats
    cycles: Floats
    code: Floats


@dataclass(frozen=True)
class _Vector:
    """A vector of ``length`` elements: ``pieces`` registers, moved by ``moves`` loads or stores."""

    length: Floats
    pieces: Floats
    moves: Floats


def kernel(shape: Shape, run: Running, cpu: CpuModel) -> Kernel:
    """The straight code of a block.

    Cycles are bound by arithmetic, loads, stores, instructions in all, or by the latency of dependent multiply-adds,
    whichever is most; registers that are missing cost a load and a store in each step of the reduction.
    """
    block = shape.block
    if block.in_tiles:
        return _of_tiles(shape, run, cpu)
    lanes = cpu.lanes(shape.buffers[block.write.buffer].element_bytes)
    vector = _vector(_multiplied(shape, run.vector), lanes, run)
    ranges = shape.ranges(run.kernel)
    inside = _multiplied(shape, run.kernel)
    operations = inside / vector.length * vector.pieces * block.operations
    summed = np.array([loop.reduction for loop in shape.block.loops], dtype=np.bool_)[:, None]
    steps = _multiplied(shape, run.kernel & summed)
    written, moved = _Registers(shape, run, block.write, vector, cpu).of(ranges)
    windows = _Windows(shape, run)
    stay = np.where(run.memory, 1.0, _stay(shape, run, block.write))
    loads, needed, waiting = np.zeros(shape.n), np.zeros(shape.n), np.zeros(shape.n)
    for access in block.reads:
        taken = _Registers(shape, run, access, vector, cpu)
        registers, fetched = taken.of(ranges)
        waiting = np.maximum(waiting, _waiting(shape, run, access, vector, taken, windows))
        kept = (registers + written <= cpu.registers) & ~run.memory
        loads = loads + fetched / np.where(kept, _stay(shape, run, access), 1.0)
        needed = np.maximum(needed, np.minimum(registers / steps, taken.at_a_time))
    stores, chain = moved / (stay if block.update else 1.0), np.zeros(shape.n)
    pieces = np.where(run.memory, vector.pieces, 1.0)
    if block.update:
        needed = needed + written / pieces + 1.0
        spilled = np.maximum(needed - cpu.registers, 0.0) * steps
        parked = np.where(run.memory, 0.0, np.clip(needed + waiting - cpu.registers, 0.0, waiting))
        loads, stores = loads + spilled + parked + moved / stay, spilled + parked + stores
    each, shared = inside * cpu.condition_instructions, inside / vector.length * cpu.test_instructions
    tests = sum((_tests(shape, run, axes, each, shared, cpu) for axes in block.conditions), np.zeros(shape.n))
    operations = operations + (loads + stores) * (1.0 - vector.pieces / vector.moves)  # what puts pieces together
    instructions = operations + loads + stores + tests
    if block.update:
        latency = cpu.dot_latency if block.dotted else cpu.latency
        chain = latency * steps * _chains(shape, run, cpu.window, instructions, stay > 1)
    cycles = np.maximum.reduce(
        [
            operations / cpu.pipes,
            loads / cpu.loads,
            stores / cpu.stores,
            instructions / cpu.width,
            chain,
        ]
    )
    cycles = cycles + cpu.loop_cycles + inside * block.calls * cpu.call_cycles
    large = instructions / pieces * cpu.instruction_bytes > cpu.code_bytes
    uneven = (vector.length > lanes) & (np.log2(vector.length) % 1.0 != 0) & ~run.compiled & block.update
    cycles = cycles * np.where(large, cpu.code_penalty, 1.0) * np.where(uneven, cpu.odd_vector_penalty, 1.0)
    if block.update:
        missing = np.where(needed > cpu.registers, 1.0, np.minimum(parked / cpu.parked_values, 1.0))
        cycles = cycles * (1.0 + (cpu.spill_penalty - 1.0) * missing)
        # Compilers hardly vectorise a loop of many statements.
        body = inside / vector.length
        cycles = cycles * np.where(run.compiled, np.clip(body / cpu.compiled_steps, 1.0, lanes), 1.0)
    code = (operations + loads + stores) / pieces
    return Kernel(shape.iterations / inside, operations, written, needed, loads, stores, cycles, code)


def _of_tiles(shape: Shape, run: Running, cpu: CpuModel) -> Kernel:
    """Products of tiles: rows of tiles are loaded one by one, and all accumulators advance together."""
    none, ranges = np.zeros(shape.n), shape.ranges(run.kernel)
    inside = _multiplied(shape, run.kernel)
    operations = inside / cpu.lanes() * shape.block.operations
    loads = none
    for access in shape.block.reads:
        size = shape.buffers[access.buffer].element_bytes
        loads = loads + shape.elements(access, ranges) * size / cpu.line_bytes
    cycles = np.maximum.reduce([operations / cpu.pipes, loads / cpu.loads, none + cpu.tile_latency])
    times = shape.iterations / inside
    return Kernel(times, operations, none, none, loads, none, cycles + cpu.loop_cycles, 2 * loads)


def _tests(shape: Shape, run: Running, axes: tuple[int, ...], each: Floats, shared: Floats, cpu: CpuModel) -> Floats:
    """Instructions for a condition on some axes: one test is shared by a vector, unless its elements differ in them.

    Where whole vectors are read under it, a test is made once for each value of the axes in the straight code. Single
    values that are spread over a register are tested anew for each.
    """
    along = shape.along(axes)
    differ = (run.vector & along).any(axis=0)
    whole = np.zeros(shape.n, dtype=np.bool_)
    for access in shape.block.reads:
        if {axis for index in access.indices for axis, _ in index.strides}.issuperset(axes):
            whole |= (run.vector & shape.moves(access)).any(axis=0)
    once = _multiplied(shape, run.kernel & along) * cpu.test_instructions
    return np.where(differ, each, np.where(whole, once, shared))


def _chains(shape: Shape, run: Running, window: float, instructions: Floats, dependent: Bools) -> Floats:
    """Chains of dependent multiply-adds that a kernel goes through one after another, less what a core overlaps.

    Accumulators inside of the unrolled reduction advance together; those outside of it come later, and so do those of
    the next run, which a core reaches if they are near enough and do not depend on this one.
    """
    later, seen = np.ones(shape.n), np.zeros(shape.n, dtype=np.bool_)
    for at, loop in enumerate(shape.block.loops):
        here = run.kernel[at] & (shape.extents[at] > 1)
        if loop.reduction:
            seen = seen | here
        else:
            later = np.where(here & ~seen & ~run.vector[at], later * shape.extents[at], later)
    later = np.where(seen, later, 1.0)
    reached = np.maximum(1.0, window * later / np.maximum(instructions, 1.0))
    return later / np.where(dependent, np.minimum(reached, later), reached)


def _multiplied(shape: Shape, inside: Bools) -> Floats:
    """Product of the extents of some loops."""
    out: Floats = np.where(inside, shape.extents, 1.0).prod(axis=0)
    return out


def _vector(length: Floats, lanes: int, run: Running) -> _Vector:
    """A length that is no power of two is moved in pieces that are.

    A compiler takes one width for a loop, and what that leaves over comes element by element.
    """
    whole, rest = np.divmod(length, lanes)
    bits, loop, left_over = np.zeros(len(length)), length, rest.astype(np.int64)
    for power in range(lanes.bit_length()):
        bits += (left_over >> power) & 1
        turns, left = np.divmod(length, 2.0**power)
        loop = np.minimum(loop, turns + left)
    pieces = np.where(run.memory, loop, np.where(run.compiled, whole + bits, np.ceil(length / lanes)))
    return _Vector(length, pieces, np.where(run.compiled, pieces, whole + bits))


class _Registers:
    """Registers that hold what an access touches, and loads or stores that move it. These are whole vectors along its
    last dimension, vectors shuffled together from near strides, single values spread over a register, or elements
    gathered one by one."""

    def __init__(self, shape: Shape, run: Running, access: Access, vector: _Vector, cpu: CpuModel) -> None:
        self._shape, self._access, self._cpu, self._vector = shape, access, cpu, vector
        rows = (shape.along(along(access)), shape.along(along(access, cpu.near_stride)), shape.moves(access))
        whole, near, self._moved = ((run.vector & row).any(axis=0) for row in rows)
        inside = unbroken(shape, access, vector.length)
        self._whole, self._near = whole & inside, near & inside
        # A scalar lies in one line.
        self._crossing = _crossing(shape, access, vector, cpu) if access.indices else 0.0

    @property
    def at_a_time(self) -> Floats:
        """Registers of a step that wait for their multiply-adds, at most, float64 [n].

        Where no instruction spreads a value itself, it is spread over a register just before it is multiplied. On a Zen
        3 tiles of 6x2, 5x2 and 4x3 reach the peak, and 7x2 half of it or less (LLVM 22).
        """
        return np.where(self._moved | self._cpu.spreads_values, WAITING, 1.0)

    def registers(self, ranges: Floats) -> Floats:
        """While the axes take ``ranges``, float64 [n]."""
        return self._held(self._shape.elements(self._access, ranges))

    def of(self, ranges: Floats) -> tuple[Floats, Floats]:
        """Registers, and loads or stores, float64 [n] each."""
        elements, vector = self._shape.elements(self._access, ranges), self._vector
        moves = elements / vector.length * vector.moves + elements * self._crossing
        shuffled = np.where(self._near, self._cpu.near_stride * moves, elements * self._cpu.gather_loads)
        return self._held(elements), np.where(self._whole, moves, np.where(self._moved, shuffled, elements))

    def _held(self, elements: Floats) -> Floats:
        return np.where(self._moved, elements / self._vector.length * self._vector.pieces, elements)


class _Windows:
    """What axes cover in the straight code without the loops of its reduction, and with one more of them each time."""

    def __init__(self, shape: Shape, run: Running) -> None:
        self._shape, self._run = shape, run

    @functools.cached_property
    def unmoved(self) -> Floats:
        """Ranges without the loops of the reduction, float64 [axes, n]."""
        return self._shape.ranges(self._inside)

    @functools.cached_property
    def moved(self) -> list[tuple[Floats, Floats]]:
        """Steps of each loop of the reduction, the innermost first, and the ranges with those so far."""
        shape, inside, found = self._shape, self._inside, []
        for at in reversed(range(len(shape.block.loops))):
            if shape.block.loops[at].reduction:
                inside[at] = self._run.kernel[at]
                found.append((np.where(inside[at], shape.extents[at], 1.0), shape.ranges(inside)))
        return found

    @property
    def _inside(self) -> Bools:
        reductions = np.array([loop.reduction for loop in self._shape.block.loops], dtype=np.bool_)
        return np.asarray(self._run.kernel & ~reductions[:, None])


def _waiting(
    shape: Shape, run: Running, access: Access, vector: _Vector, taken: _Registers, windows: _Windows
) -> Floats:
    """Registers of values that a later step of the straight code uses again, as those of a window that slides.

    A compiler loads each of them once and keeps it. Where registers run out it writes the value to the stack, and does
    not load it again from where it was.
    """
    out, loops = np.zeros(shape.n), shape.block.loops
    summed = {axis for loop in loops if loop.reduction for axis in loop.axes}
    rows = [{axis for axis, _ in index.strides} for index in access.indices]
    sliding = {axis for axes in rows if axes & summed for axis in axes - summed}
    if not sliding:
        return out
    once = taken.registers(windows.unmoved)
    for steps, ranges in windows.moved:
        touched = taken.registers(ranges)
        again = touched < once * steps
        out = np.maximum(out, np.where(again, touched * (1.0 - 1.0 / steps), 0.0))
        once = touched
    shifted = (run.vector & shape.along(sliding)).any(axis=0)  # each step has vectors of its own
    return np.where(shifted, 0.0, out / vector.pieces)


def _crossing(shape: Shape, access: Access, vector: _Vector, cpu: CpuModel) -> Floats:
    """Second cache lines that a vector's loads or stores touch, as a share of its length. Pieces need not begin where a
    register would, so that the odds grow with their length."""
    buffer, last = shape.buffers[access.buffer], access.indices[-1]
    lanes = cpu.lanes(shape.buffers[shape.block.write.buffer].element_bytes)
    begins = len([axis for axis, stride in last.strides if stride % lanes]) < 2 and buffer.shape[-1] % lanes == 0
    odds = (vector.length - vector.moves) * buffer.element_bytes / cpu.line_bytes
    return np.where(begins & (vector.length % lanes == 0), 0.0, odds / vector.length)


def _stay(shape: Shape, run: Running, access: Access) -> Floats:
    """Runs of the straight code during which what an access touches stays the same."""
    outside = ~run.kernel
    ends = shape.moves(access) & outside & (shape.extents > 1)
    ended = np.logical_or.accumulate(ends[::-1], axis=0)[::-1]
    return _multiplied(shape, outside & ~ended)
