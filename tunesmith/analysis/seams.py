"""Where what one core writes meets what other cores write.

A core fetches lines ahead of what it writes. Beyond the end of a piece of its own these are lines that another core has
written, and they go back and forth. Two cores that each write half of the rows of every channel have many such places,
two that write half of the channels one.
"""

from __future__ import annotations

import numpy as np

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.running import Running
from tunesmith.analysis.shape import Shape
from tunesmith.space.base import Bools, Floats


def seams(shape: Shape, run: Running, cpu: CpuModel) -> Floats:
    """Pieces in which a core writes the block's result among pieces of others, but for the last one, float64 [n].

    Tasks that follow each other are of one core. Where pieces are so short that all of a core's lines are fetched by
    others, there are as many as make up their bytes.
    """
    access, out = shape.block.write, np.zeros(shape.n)
    buffer = shape.buffers[access.buffer]
    if buffer.local:
        return out
    shared = run.parallel & shape.moves(access) & (shape.extents > 1)
    for at in np.flatnonzero(shared.any(axis=1)).tolist():
        before = np.where(shared[:at], shape.extents[:at], 1.0).prod(axis=0)
        divides = shared[at] & (before < cpu.cores)
        out = np.where(divides, _seams(shape, shared, at, before, cpu), out)
    return out


def _seams(shape: Shape, shared: Bools, at: int, before: Floats, cpu: CpuModel) -> Floats:
    """The same where the tasks of loop ``at`` are divided among the cores that the loops around leave for it."""
    inside = ~shared
    inside[at + 1 :] = True
    ranges = shape.ranges(inside & (np.arange(len(inside)) != at)[:, np.newaxis])
    shape.cover(ranges, at, np.ceil(shape.extents[at] / np.ceil(cpu.cores / before)))
    access = shape.block.write
    found = shape.footprint(access, ranges)
    written = found.elements * shape.buffers[access.buffer].element_bytes
    return np.asarray(np.minimum(found.pieces - 1.0, written / cpu.seam_bytes))
