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
from tunesmith.analysis.running import Running, along
from tunesmith.analysis.shape import Footprint, Shape
from tunesmith.space.base import Bools, Floats

INSTRUCTION_BYTES = 8
"""Of a vector instruction with an address, about."""
LOOP_CYCLES = 1.5
"""Of the counter and the jump of a loop."""
CODE_PENALTY = 2.0
"""How much slower code runs that must be fetched from beyond the instruction cache."""
GATHER_CYCLES = 2.0
"""Of an element that no vector load brings."""
UNEVEN = 6.0
"""How much slower vectors are whose length is neither within a register nor a power of two (measured, TVM on LLVM)."""


@dataclass(frozen=True)
class Kernel:
    """Straight code, float64 [n] each.

    Attributes:
        times: how often it runs.
        operations: arithmetic instructions.
        accumulators: registers that hold results while a loop around them goes on; of an update.
        needed: registers, operands included.
        loads, stores: of memory; what moves accumulators in and out of registers, spread over their stay, included.
        steps: multiply-adds on one accumulator, one after another.
        cycles: of one run.
    """

    times: Floats
    operations: Floats
    accumulators: Floats
    needed: Floats
    loads: Floats
    stores: Floats
    steps: Floats
    cycles: Floats

    @property
    def instructions(self) -> Floats:
        """Of one run."""
        return self.operations + self.loads + self.stores


def kernel(shape: Shape, run: Running, device: DeviceDescription) -> Kernel:
    """The straight code of a block.

    Cycles are bound by arithmetic, loads, stores, instructions in all, or by the latency of dependent multiply-adds,
    whichever is most; registers that are missing cost a load and a store in each step of the reduction.
    """
    block = shape.block
    lanes = float(device.lanes(shape.buffers[block.write.buffer].element_bytes))
    length = _multiplied(shape, run.vector)
    pieces = np.ceil(length / lanes)
    ranges = shape.ranges(run.kernel)
    # An iteration handles one element, and `length` of them are one instruction for each register that they fill.
    inside = _multiplied(shape, run.kernel)
    operations = inside / length * pieces * block.operations
    steps = _multiplied(shape, run.kernel & _rows(shape, [loop.reduction for loop in block.loops]))
    written = _registers(shape, run, block.write, shape.footprint(block.write, ranges), length, pieces)
    reads = [_registers(shape, run, access, shape.footprint(access, ranges), length, pieces) for access in block.reads]
    loads = sum((vectors for vectors in reads), np.zeros(shape.n))
    if block.update:
        stay = np.where(run.memory, 1.0, _stay(shape, run, block.write))
        operands = 1.0 + sum((np.minimum(vectors / steps, 4.0) for vectors in reads[:1]), np.zeros(shape.n))
        needed = written + operands
        spilled = np.maximum(needed - device.registers, 0.0) * steps
        loads, stores = loads + spilled + written / stay, spilled + written / stay
        chain = device.latency * steps
    else:
        needed, stores, chain = np.ones(shape.n), written, np.zeros(shape.n)
    cycles = np.maximum.reduce([
        operations / device.pipes, loads / device.loads, stores / device.stores,
        (operations + loads + stores) / device.width, chain,
    ])  # fmt: skip
    cycles = cycles + LOOP_CYCLES + inside * block.calls * device.call
    large = (operations + loads + stores) * INSTRUCTION_BYTES > device.code_bytes
    uneven = (length > lanes) & (np.log2(length) % 1.0 != 0) & ~run.compiled
    cycles = cycles * np.where(large, CODE_PENALTY, 1.0) * np.where(uneven, UNEVEN, 1.0)
    return Kernel(shape.iterations / inside, operations, written, needed, loads, stores, steps, cycles)


def _multiplied(shape: Shape, inside: Bools) -> Floats:
    """Product of the extents of some loops."""
    out: Floats = np.where(inside, shape.extents, 1.0).prod(axis=0)
    return out


def _rows(shape: Shape, flags: list[bool]) -> Bools:
    return np.array(flags, dtype=np.bool_).reshape(-1, 1) & np.ones((1, shape.n), dtype=np.bool_)


def _registers(shape: Shape, run: Running, access: Access, touched: Footprint, length: Floats, pieces: Floats) -> Floats:
    """Registers that hold what an access touches: whole vectors along its last dimension, single values that are spread
    over a register, or elements gathered one by one."""
    last = along(access)
    whole, moved = np.zeros(shape.n, dtype=np.bool_), np.zeros(shape.n, dtype=np.bool_)
    for at, loop in enumerate(shape.block.loops):
        here = run.vector[at]
        whole |= here & bool(set(loop.axes) & last)
        moved |= here & shape.moves(access, at)
    vectors = touched.elements / length * pieces
    return np.where(whole, vectors, np.where(moved, touched.elements * GATHER_CYCLES, touched.elements))


def _stay(shape: Shape, run: Running, access: Access) -> Floats:
    """Runs of the straight code during which the accumulators stay where they are."""
    out, open_ = np.ones(shape.n), np.ones(shape.n, dtype=np.bool_)
    for at in reversed(range(len(shape.block.loops))):
        outside = ~run.kernel[at]
        if shape.moves(access, at):
            open_ = open_ & ~(outside & (shape.extents[at] > 1))
        out = np.where(open_ & outside, out * shape.extents[at], out)
    return out
