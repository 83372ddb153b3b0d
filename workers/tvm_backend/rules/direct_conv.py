"""Direct convolution in NCHW: output channels across vector registers, a tile of pixels accumulated in them.

Weights are packed by output channel, so that a register of them is one load; inputs are read one value at a time and
multiplied into the registers of all channels (Georganas et al., "Anatomy of high-performance deep learning
convolutions on SIMD architectures", 2018). The tile is turned back into NCHW when it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from workers.tvm_backend.rules.base import Rule, Variant
from workers.tvm_backend.rules.convolution import Convolution, find
from workers.tvm_backend.rules.epilogue import fold
from workers.tvm_backend.rules.machine import Machine

WIDTHS = (1, 2)
MOST_COLUMNS = 28
MOST_ROWS = 4


class DirectConvolution(Rule):
    """Applies to convolutions of one group whose output channels fill registers.

    Sketches: one or two registers of channels, the kernel's columns unrolled or not. Knobs: tiles of rows and columns.
    """

    def variants(self, sch: Schedule, machine: Machine) -> Iterator[Variant]:
        """See ``Rule``."""
        found = find(sch)
        if found is None or found.dtype != "float32":
            return
        for width in WIDTHS:
            lanes = width * machine.lanes
            if found.extents[found.channel] % lanes == 0:
                for unrolled in (False, True) if found.extents[found.kernel[1]] > 1 else (False,):
                    yield partial(_schedule, plan=Plan(found, lanes, unrolled))


@dataclass(frozen=True)
class Plan:
    """What is fixed in a sketch.

    Attributes:
        lanes: output channels of a tile.
        unrolled: the kernel's columns are.
    """

    found: Convolution
    lanes: int
    unrolled: bool


def _schedule(sch: Schedule, plan: Plan) -> None:
    found, block = plan.found, sch.get_sblock(plan.found.block)
    producers = [str(sch.get(each).name_hint) for each in sch.get_producers(block)]
    last = fold(sch, block)
    pack = sch.cache_read(block, found.weights, "global")
    sch.transform_layout(pack, ("write", 0), lambda o, i, h, w: (o // plan.lanes, i, h, w, o % plan.lanes))
    tile = sch.cache_write(block, 0, "local")
    sch.transform_layout(block, ("write", 0), lambda n, o, y, x: (n, o // plan.lanes, y, x, o % plan.lanes))
    loops = sch.get_loops(block)
    n, o, y, x, i = (loops[at] for at in (found.batch, found.channel, found.height, found.width, found.inputs))
    ky, kx = (loops[at] for at in found.kernel)
    o0, lane = sch.split(o, [None, plan.lanes], preserve_unit_iters=True)
    y0, y1 = sch.split(y, sch.sample_perfect_tile(y, 2, MOST_ROWS), preserve_unit_iters=True)
    x0, x1 = sch.split(x, sch.sample_perfect_tile(x, 2, MOST_COLUMNS), preserve_unit_iters=True)
    sch.reorder(n, o0, y0, x0, i, ky, kx, y1, x1, lane)
    if last is not None:
        sch.reverse_compute_inline(sch.get_sblock(last))
    sch.reverse_compute_at(tile, x0, preserve_unit_loops=True)
    sch.parallel(sch.fuse(n, o0, y0))
    for loop in ((kx,) if plan.unrolled else ()) + (y1, x1):
        sch.unroll(loop)
    sch.vectorize(lane)
    init = sch.decompose_reduction(block, i)
    *_, rows, columns, channels = sch.get_loops(init)
    sch.vectorize(channels)
    sch.unroll(rows)
    sch.unroll(columns)
    _pack_loops(sch, pack, plan)
    for name in producers:
        _copy_loops(sch, sch.get_sblock(name))


def _pack_loops(sch: Schedule, pack: Any, plan: Plan) -> None:
    o, i, ky, kx = sch.get_loops(pack)
    o0, lane = sch.split(o, [None, plan.lanes], preserve_unit_iters=True)
    sch.reorder(o0, i, ky, kx, lane)
    sch.parallel(sch.fuse(o0, i))
    sch.vectorize(lane)


def _copy_loops(sch: Schedule, block: Any) -> None:
    """A padded copy of the input: rows in parallel."""
    loops = sch.get_loops(block)
    sch.parallel(sch.fuse(*loops[:-1]))
