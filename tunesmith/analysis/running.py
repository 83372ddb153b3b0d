"""How each loop runs, for a batch of candidates: in parallel, in vectors, unrolled or as a loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tunesmith.analysis.nest import Access, Kind, Marks
from tunesmith.analysis.shape import Shape, Values, product
from tunesmith.space.base import Bools, Floats

SMALL_STEPS = 8
"""Steps of inner loops that a compiler unrolls without being told."""
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


def running(shape: Shape, marks: Marks | None, values: Values) -> Running:
    """From the loops' kinds, or, where TVM is to choose them, by its rules."""
    if marks is None:
        parallel, vector, unrolled = (_of_kind(shape, kind) for kind in (Kind.PARALLEL, Kind.VECTOR, Kind.UNROLLED))
    else:
        parallel, vector = _parallel(shape, marks), _vector(shape, marks)
        unrolled = np.zeros_like(vector)
    steps = np.zeros(shape.n) if marks is None else product(values, marks.unroll, shape.n)
    kernel = _kernel(shape, parallel, vector, unrolled, np.maximum(steps, SMALL_STEPS))
    helped = _compiled(shape, vector, kernel)
    return Running(parallel, vector | helped, kernel | helped, helped.any(axis=0), (helped & ~kernel).any(axis=0))


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


def along(access: Access) -> set[int]:
    """The axes that step through memory place by place."""
    return {axis for axis, stride in access.indices[-1].strides if stride == 1} if access.indices else set()


def _of_kind(shape: Shape, kind: Kind) -> Bools:
    rows = [np.full(shape.n, loop.kind is kind) for loop in shape.block.loops]
    return np.stack(rows) if rows else np.zeros((0, shape.n), dtype=np.bool_)


def _parallel(shape: Shape, marks: Marks) -> Bools:
    """Outer loops that no reduction moves are fused until there are enough tasks."""
    out = _of_kind(shape, Kind.PARALLEL)
    open_, tasks = np.full(shape.n, marks.parallel > 0), np.ones(shape.n)
    for at, loop in enumerate(shape.block.loops):
        if loop.reduction or (at and not shape.block.loops[at - 1].single):
            break
        out[at] = open_
        tasks = np.where(open_, tasks * shape.extents[at], tasks)
        open_ &= tasks <= marks.parallel
    return out


def _vector(shape: Shape, marks: Marks) -> Bools:
    """Inner loops that no reduction moves are fused while they go on in memory and are not too long."""
    block, out = shape.block, _of_kind(shape, Kind.VECTOR)
    open_, length = np.full(shape.n, marks.vector > 0), np.ones(shape.n)
    last = along(block.write)
    for at in reversed(range(len(block.loops))):
        loop = block.loops[at]
        if loop.reduction or not loop.single or not set(loop.axes) <= last:
            break
        length = length * np.where(open_, shape.extents[at], 1.0)
        open_ = open_ & (length <= marks.vector)
        out[at] = open_ & (shape.extents[at] > 1)
    return out


def _kernel(shape: Shape, parallel: Bools, vector: Bools, unrolled: Bools, steps: Floats) -> Bools:
    """Inner loops up to the first that stays a loop; unasked, loops are unrolled while they have few steps together."""
    out = np.zeros_like(vector)
    open_, body, depth = np.ones(shape.n, dtype=np.bool_), np.ones(shape.n), np.zeros(shape.n)
    for at in reversed(range(len(shape.block.loops))):
        trips = shape.extents[at]
        body = np.where(vector[at], body, body * trips)
        straight = vector[at] | (trips == 1) | unrolled[at] | ((body <= steps) & (depth < MOST_DEPTH))
        open_ = open_ & straight & ~(parallel[at] & (trips > 1))
        depth += ~vector[at] & (trips > 1)
        out[at] = open_
    return out
