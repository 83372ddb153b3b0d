"""How each loop runs, for a batch of candidates: in parallel, in vectors, unrolled or as a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.nest import Access, Buffer, Kind, Marks
from tunesmith.analysis.shape import Shape, Values, product
from tunesmith.space.base import Bools, Floats

MOST_DEPTH = 8
"""Loops that TVM's unrolling takes at most."""


@dataclass(frozen=True)
class Running:
    """How loops run.

    Attributes:
        parallel, vector: bool [loops, n].
        kernel: bool [loops, n], the innermost loops that are straight code: vectors, unrolled, or of one step; and the
            loop around them that a compiler vectorised.
        compiled: bool [n], the compiler vectorises, and copes with any length.
        memory: bool [n], results go through memory in each run of the kernel, because it is a loop that was vectorised.
    """

    parallel: Bools
    vector: Bools
    kernel: Bools
    compiled: Bools
    memory: Bools


def running(shape: Shape, marks: Marks | None, values: Values, cpu: CpuModel) -> Running:
    """From the loops' kinds, or, where TVM is to choose them, by its rules."""
    lanes = cpu.lanes(shape.buffers[shape.block.write.buffer].element_bytes)
    if marks is None:
        parallel, vector, unrolled = (_of_kind(shape, kind) for kind in (Kind.PARALLEL, Kind.VECTOR, Kind.UNROLLED))
        marked = np.zeros(shape.n)
    else:
        parallel, vector = _parallel(shape, marks), _vector(shape, marks)
        unrolled, marked = np.zeros_like(vector), product(values, marks.unroll, shape.n)
    steps = np.maximum(marked, cpu.unrolled_instructions / _instructions(shape, vector, lanes))
    kernel = _kernel(shape, parallel, vector, unrolled, steps)
    helped = _compiled(shape, vector, kernel)
    compiled: Bools = np.logical_or.reduce(helped, axis=0)
    memory: Bools = np.logical_or.reduce(helped & ~kernel, axis=0)
    return Running(parallel, vector | helped, kernel | helped, compiled, memory)


def along(access: Access, most: int = 1) -> set[int]:
    """The axes that step through memory in strides up to ``most``."""
    return {axis for axis, stride in access.indices[-1].strides if 1 <= stride <= most} if access.indices else set()


def unbroken(shape: Shape, access: Access, length: Floats) -> Bools:
    """Whether a vector of ``length`` elements along the last dimension stays within one panel of a packed buffer, bool
    [n]. Of one that runs into the next panel TVM fetches element by element."""
    panel = access.indices[-1].modulo if access.indices else 0
    if panel and _follows(access, shape.buffers[access.buffer]):
        return np.ones(len(length), dtype=np.bool_)
    return np.asarray(panel % length == 0)


def _follows(access: Access, buffer: Buffer) -> bool:
    """Whether the last dimension goes on in the one before it. Both are digits of one number then, like the row and the
    column of a pixel that was counted."""
    *_, before, last = (None, *access.indices)
    if before is None or before.strides != last.strides or last.divide != 1:
        return False
    return last.modulo == buffer.shape[-1] == before.divide


def _of_kind(shape: Shape, kind: Kind) -> Bools:
    rows = [np.full(shape.n, loop.kind is kind) for loop in shape.block.loops]
    return np.stack(rows) if rows else np.zeros((0, shape.n), dtype=np.bool_)


def _parallel(shape: Shape, marks: Marks) -> Bools:
    """Outer loops that no reduction moves are fused until there are enough tasks."""
    out = _of_kind(shape, Kind.PARALLEL)
    open_, tasks = np.full(shape.n, marks.parallel > 0), np.ones(shape.n)
    for at, loop in enumerate(shape.block.loops):
        if loop.reduction or loop.shared or (at and not shape.block.loops[at - 1].single):
            break
        out[at] = open_
        tasks = np.where(open_, tasks * shape.extents[at], tasks)
        open_ &= tasks <= marks.parallel
    return out


def _vector(shape: Shape, marks: Marks) -> Bools:
    """Inner loops along the last dimension are fused while they are not too long together."""
    block, out = shape.block, _of_kind(shape, Kind.VECTOR)
    open_, length, last = np.full(shape.n, marks.vector > 0), np.ones(shape.n), along(block.write)
    for at in reversed(range(len(block.loops))):
        loop = block.loops[at]
        if loop.reduction or not loop.single or not set(loop.axes) <= last:
            break
        length = length * np.where(open_, shape.extents[at], 1.0)
        open_ = open_ & (length <= marks.vector)
        out[at] = open_ & (shape.extents[at] > 1)
    return out


def _instructions(shape: Shape, vector: Bools, lanes: int) -> Floats:
    """Instructions of one step of the innermost loop: arithmetic, loads, and two for each gathered element."""
    length = np.where(vector, shape.extents, 1.0).prod(axis=0)
    pieces, out = np.ceil(length / lanes), np.ones(shape.n)
    for access in shape.block.reads:
        whole, moved = ((vector & row).any(axis=0) for row in (shape.along(along(access)), shape.moves(access)))
        whole = whole & unbroken(shape, access, length)
        out = out + np.where(whole, pieces, np.where(moved, 2.0 * length, 1.0))
    return np.asarray(out + pieces * shape.block.operations)


def _kernel(shape: Shape, parallel: Bools, vector: Bools, unrolled: Bools, steps: Floats) -> Bools:
    """Inner loops up to the first that stays a loop; unasked, loops are unrolled while they have few steps together."""
    if not len(vector):
        return np.zeros_like(vector)
    trips = shape.extents
    turns = ~vector & (trips > 1)
    body = _inwards(np.multiply, np.where(vector, 1.0, trips))
    depth = _inwards(np.add, turns.astype(np.float64)) - turns
    straight = vector | (trips == 1) | unrolled | ((body <= steps) & (depth < MOST_DEPTH))
    return _inwards(np.logical_and, straight & ~(parallel & (trips > 1)))


def _inwards(what: np.ufunc, rows: NDArray[Any]) -> NDArray[Any]:
    """For each loop, all from it inwards taken together."""
    out: NDArray[Any] = what.accumulate(rows[::-1], axis=0)[::-1]
    return out


def _compiled(shape: Shape, vector: Bools, kernel: Bools) -> Bools:
    """The loop that a compiler vectorises where none was: of straight code, or around it, along the last dimension."""
    out = np.zeros_like(vector)
    open_, last = ~(vector & (shape.extents > 1)).any(axis=0), along(shape.block.write)
    for at in reversed(range(len(shape.block.loops))):
        loop = shape.block.loops[at]
        if loop.axes and set(loop.axes) <= last and not loop.reduction:
            out[at] = open_ & (shape.extents[at] > 1)
            open_ = open_ & ~out[at]
        open_ = open_ & kernel[at]
    return out
