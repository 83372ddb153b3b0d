"""Lines that go from core to core: of results that several cores write, and of what one makes for another.

A core fetches lines ahead of what it writes. Beyond the end of a piece of its own these are lines that another core has
written, and they go back and forth. Two cores that each write half of the rows of every channel have many such places,
two that write half of the channels one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.nest import Access
from tunesmith.analysis.running import Running
from tunesmith.analysis.shape import Shape
from tunesmith.space.base import Floats


class CoreShare:
    """What one core has of a block. Tasks that follow each other are of one core.

    Attributes:
        ranges: places of each axis, float64 [axes, n].
        loop: number of the block's outermost parallel loop; None without one.
        cores: how many have a share, float64 [n].
    """

    def __init__(self, shape: Shape, run: Running, cpu: CpuModel) -> None:
        self.shape, self._cpu = shape, cpu
        steps, self.cores = shape.extents.copy(), np.ones(shape.n)
        outer = np.flatnonzero(run.parallel.any(axis=1)).tolist()
        self.loop = shape.block.loops[outer[0]].number if outer else None
        self._private = bool(outer) and shape.around(shape.block.write.buffer) > outer[0]
        for at in outer:
            tasks = np.where(run.parallel[at], shape.extents[at], 1.0)
            steps[at] = np.where(run.parallel[at], np.ceil(tasks / np.ceil(cpu.cores / self.cores)), steps[at])
            self.cores = np.minimum(self.cores * tasks, cpu.cores)
        self.ranges = shape.covered(steps)

    def seams(self) -> Floats:
        """Pieces in which the core writes the block's result among pieces of others, but for the last one, float64 [n].

        Where pieces are so short that all of a core's lines are fetched by others, there are as many as make up their
        bytes.
        """
        access = self.shape.block.write
        buffer = self.shape.buffers[access.buffer]
        if buffer.local or self.loop is None or self._private:
            return np.zeros(self.shape.n)
        found = self.shape.footprint(access, self.ranges)
        written = found.elements * buffer.element_bytes
        return np.asarray(np.minimum(found.pieces - 1.0, written / self._cpu.seam_bytes) * (self.cores > 1.0))

    def received(self, makers: Iterable[CoreShare]) -> Floats:
        """Bytes that the core reads of what others have written in earlier blocks, float64 [n].

        Blocks in one parallel loop are of one core. No more is in the others' own caches than these hold.
        """
        wrote = {made.shape.block.write.buffer: made for made in makers if made.loop != self.loop}
        out = np.zeros(self.shape.n)
        for access in self.shape.block.reads:
            if access.buffer in wrote and not self.shape.buffers[access.buffer].local:
                others = 1.0 - self._own(access, wrote[access.buffer])
                out += self.shape.footprint(access, self.ranges).bytes * others
        return np.minimum(out, self._cpu.caches[:2][-1].size)

    def _own(self, access: Access, maker: CoreShare) -> Floats:
        """The part of what the core reads that it wrote itself. What one core wrote alone others have none of."""
        part = np.ones(self.shape.n)
        written = maker.shape.spans(maker.shape.block.write, maker.ranges)
        for (size, mine, _), (_, made, _) in zip(self.shape.spans(access, self.ranges), written, strict=True):
            part = part * np.where(made < size, np.minimum(made / mine, 1.0), 1.0)
        return np.where((maker.cores < 2.0) & (self.cores > 1.0), 0.0, part)
