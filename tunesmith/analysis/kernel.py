"""The innermost straight code of a block: instructions, registers, and cycles that they take on a core.

After the analyses that hand-tuned kernels rest on: accumulators stay in registers while the loops around them do not
move them (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008), and there must be as many
independent ones as latency times throughput (Low et al., "Analytical modeling is enough for high-performance BLIS",
2016).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tunesmith.analysis.device import DeviceDescription
from tunesmith.analysis.nest import Access
from tunesmith.analysis.running import Running, along, unbroken
from tunesmith.analysis.shape import LINE, Shape
from tunesmith.space.base import Bools, Floats

INSTRUCTION_BYTES = 8
"""Bytes of a vector instruction with an address, roughly."""
LOOP_CYCLES = 1.0
"""Cycles of a loop's counter and jump."""
CODE_PENALTY = 1.2
"""How much slower code runs that must be fetched from beyond the instruction cache."""
NEAR_STRIDE = 4
"""Strides up to which vectors are put together of whole loads and shuffles."""
GATHER = 2.0
"""Loads that an element is worth which no vector load brings."""
UNEVEN = 4.0
"""How much slower accumulators are whose vectors fill registers and are no power of two long (measured, LLVM 22)."""
SPILLED = 1.6
"""How much slower a kernel is that lacks registers, without its extra loads and stores (measured, LLVM 22)."""
COMPILED = 20.0
"""Steps of a loop's body up to which compilers vectorise the loop well (LLVM 22, measured)."""
WINDOW = 256.0
"""Instructions that a core looks ahead."""
CONDITION = 6.0
"""Instructions of an element of a vector that is read only where a condition holds: TVM makes it scalar code."""


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


def kernel(shape: Shape, run: Running, device: DeviceDescription) -> Kernel:
    """The straight code of a block.

    Cycles are bound by arithmetic, loads, stores, instructions in all, or by the latency of dependent multiply-adds,
    whichever is most; registers that are missing cost a load and a store in each step of the reduction.
    """
    block = shape.block
    lanes = device.lanes(shape.buffers[block.write.buffer].element_bytes)
    vector = _vector(_multiplied(shape, run.vector), lanes, run.compiled)
    ranges = shape.ranges(run.kernel)
    inside = _multiplied(shape, run.kernel)
    operations = inside / vector.length * vector.pieces * block.operations
    steps = _multiplied(shape, run.kernel & _reductions(shape))
    written, moved = _registers(shape, run, block.write, ranges, vector, lanes)
    stay = np.where(run.memory, 1.0, _stay(shape, run, block.write))
    loads, needed = np.zeros(shape.n), np.zeros(shape.n)
    for access in block.reads:
        registers, fetched = _registers(shape, run, access, ranges, vector, lanes)
        kept = (registers + written <= device.registers) & ~run.memory
        loads = loads + fetched / np.where(kept, _stay(shape, run, access), 1.0)
        needed = np.maximum(needed, np.minimum(registers / steps, 4.0))
    stores, chain = moved / (stay if block.update else 1.0), np.zeros(shape.n)
    pieces = np.where(run.memory, vector.pieces, 1.0)
    if block.update:
        needed = needed + written / pieces + 1.0
        spilled = np.maximum(needed - device.registers, 0.0) * steps
        loads, stores = loads + spilled + moved / stay, spilled + stores
    tests = sum((_tests(shape, run, axes, inside, vector.length) for axes in block.conditions), np.zeros(shape.n))
    operations = operations + (loads + stores) * (1.0 - vector.pieces / vector.moves)  # what puts pieces together
    instructions = operations + loads + stores + tests
    if block.update:
        chain = device.latency * steps * _chains(shape, run, instructions, stay > 1)
    cycles = np.maximum.reduce(
        [
            operations / device.pipes,
            loads / device.loads,
            stores / device.stores,
            instructions / device.width,
            chain,
        ]
    )
    cycles = cycles + LOOP_CYCLES + inside * block.calls * device.call
    large = instructions / pieces * INSTRUCTION_BYTES > device.code_bytes
    uneven = (vector.length > lanes) & (np.log2(vector.length) % 1.0 != 0) & ~run.compiled & block.update
    cycles = cycles * np.where(large, CODE_PENALTY, 1.0) * np.where(uneven, UNEVEN, 1.0)
    if block.update:
        cycles = cycles * np.where(needed > device.registers, SPILLED, 1.0)
        # Compilers hardly vectorise a loop of many statements.
        body = inside / vector.length
        cycles = cycles * np.where(run.compiled, np.clip(body / COMPILED, 1.0, lanes), 1.0)
    code = (operations + loads + stores) / pieces
    return Kernel(shape.iterations / inside, operations, written, needed, loads, stores, cycles, code)


def _tests(shape: Shape, run: Running, axes: tuple[int, ...], inside: Floats, length: Floats) -> Floats:
    """Instructions for a condition on some axes: one for a whole vector, unless its elements differ in them."""
    differ = (run.vector & shape.along(axes)).any(axis=0)
    return np.where(differ, inside * CONDITION, inside / length)


def _chains(shape: Shape, run: Running, instructions: Floats, dependent: Bools) -> Floats:
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
    reached = np.maximum(1.0, WINDOW * later / np.maximum(instructions, 1.0))
    return later / np.where(dependent, np.minimum(reached, later), reached)


def _multiplied(shape: Shape, inside: Bools) -> Floats:
    """Product of the extents of some loops."""
    out: Floats = np.where(inside, shape.extents, 1.0).prod(axis=0)
    return out


def _reductions(shape: Shape) -> Bools:
    return np.array([loop.reduction for loop in shape.block.loops], dtype=np.bool_).reshape(-1, 1)


def _vector(length: Floats, lanes: int, compiled: Bools) -> _Vector:
    """A length that is no power of two is moved in pieces that are."""
    whole, rest = np.divmod(length, lanes)
    bits = np.zeros(len(length))
    for power in range(lanes.bit_length()):
        bits += (rest.astype(np.int64) >> power) & 1
    pieces = np.ceil(length / lanes)
    return _Vector(length, pieces, np.where(compiled, pieces, whole + bits))


def _registers(
    shape: Shape, run: Running, access: Access, ranges: Floats, vector: _Vector, lanes: int
) -> tuple[Floats, Floats]:
    """Registers that hold what an access touches, and loads or stores that move it: whole vectors along its last
    dimension, vectors shuffled together from near strides, single values that are spread over a register, or elements
    gathered one by one."""
    elements = shape.footprint(access, ranges).elements
    rows = (shape.along(along(access)), shape.along(along(access, NEAR_STRIDE)), shape.moves(access))
    whole, near, moved = ((run.vector & row).any(axis=0) for row in rows)
    inside = unbroken(access, vector.length)
    whole, near = whole & inside, near & inside
    vectors, moves = elements / vector.length * vector.pieces, elements / vector.length * vector.moves
    if access.indices:  # a scalar lies in one line
        moves = moves + elements * _crossing(shape, access, vector, lanes)
    shuffled = np.where(near, NEAR_STRIDE * moves, elements * GATHER)
    return np.where(moved, vectors, elements), np.where(whole, moves, np.where(moved, shuffled, elements))


def _crossing(shape: Shape, access: Access, vector: _Vector, lanes: int) -> Floats:
    """Second cache lines that a vector's loads or stores touch, as a share of its length: pieces that need not begin
    where a register would, so that the odds grow with their length."""
    buffer, last = shape.buffers[access.buffer], access.indices[-1]
    begins = len([axis for axis, stride in last.strides if stride % lanes]) < 2 and buffer.shape[-1] % lanes == 0
    odds = (vector.length - vector.moves) * buffer.element_bytes / LINE
    return np.where(begins & (vector.length % lanes == 0), 0.0, odds / vector.length)


def _stay(shape: Shape, run: Running, access: Access) -> Floats:
    """Runs of the straight code during which what an access touches stays the same."""
    outside = ~run.kernel
    ends = shape.moves(access) & outside & (shape.extents > 1)
    ended = np.logical_or.accumulate(ends[::-1], axis=0)[::-1]
    return _multiplied(shape, outside & ~ended)
