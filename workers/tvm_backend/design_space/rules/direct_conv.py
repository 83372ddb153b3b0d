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

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules import padding
from workers.tvm_backend.design_space.rules.base import Rule, Variant
from workers.tvm_backend.design_space.rules.convolution import Convolution, TiledLoops, find, in_threads
from workers.tvm_backend.design_space.rules.epilogue import fold, foldable
from workers.tvm_backend.design_space.rules.registers import Tile, innermost, pixel_tiles, split_in_two


class DirectConvolution(Rule):
    """Applies to convolutions of one group whose output channels fill a register, or half or a quarter of one.

    One sketch, or with few registers one for each of the one or two most promising tiles. Knobs: rows, columns and
    registers of channels of a tile, the kernel's columns that are unrolled; with few registers columns are fixed, and
    need not divide a row.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = find(sch)
        if found is None or found.dtype != "float32" or not foldable(sch, sch.get_sblock(found.block)):
            return
        channels = found.extents[found.channel]
        lanes = next((n for n in (cpu.lanes(), cpu.lanes() // 2, cpu.lanes() // 4) if channels % n == 0), 1)
        if lanes == 1:
            return
        exact = cpu.few_registers
        for limits, rows in pixel_tiles(cpu, found.extents[found.width], channels // lanes, exact):
            yield partial(_schedule, plan=DirectConvPlan(found, lanes, cpu.lanes(), limits, rows, exact))


@dataclass(frozen=True)
class DirectConvPlan:
    """What is fixed in a sketch.

    Attributes:
        lanes: output channels of a vector.
        register: floats of a register.
        tile: limits of its columns and vectors.
        rows: rows of a tile, at most.
        exact: a tile has as many columns as its limit says, and the last one of a row what is left.
    """

    found: Convolution
    lanes: int
    register: int
    tile: Tile
    rows: int
    exact: bool


def _schedule(sch: Schedule, plan: DirectConvPlan) -> None:
    found, block = plan.found, sch.get_sblock(plan.found.block)
    copies = padding.copies(sch, block)
    last = fold(sch, block)
    pack = sch.cache_read(block, found.weights, "global")
    sch.transform_layout(pack, ("write", 0), lambda o, i, h, w: (o // plan.lanes, i, h, w, o % plan.lanes))
    written = sch.cache_write(block, 0, "local")
    sch.transform_layout(block, ("write", 0), lambda n, o, y, x: (n, o // plan.lanes, y, x, o % plan.lanes))
    loops = _tile(sch, block, plan)
    in_threads(sch, written, last, loops)
    sch.unroll(loops.kernel)
    innermost(sch, block, 4)
    innermost(sch, sch.decompose_reduction(block, loops.reduction), 4)
    _pack_loops(sch, pack, plan)
    for name in copies:
        padding.place(sch, sch.get_sblock(name), plan.register, None)


def _tile(sch: Schedule, block: Any, plan: DirectConvPlan) -> TiledLoops:
    found, loops = plan.found, sch.get_loops(block)
    n, o, y, x, i = (loops[at] for at in (found.batch, found.channel, found.height, found.width, found.inputs))
    ky, kx = (loops[at] for at in found.kernel)
    vector, lane = sch.split(o, [None, plan.lanes], preserve_unit_iters=True)
    o0, o1 = sch.split(vector, sch.sample_perfect_tile(vector, 2, plan.tile.vectors), preserve_unit_iters=True)
    y0, y1 = sch.split(y, sch.sample_perfect_tile(y, 2, plan.rows), preserve_unit_iters=True)
    x0, x1 = split_in_two(sch, x, plan.tile.scalars, plan.exact)
    kx0, kx1 = split_in_two(sch, kx, 1 if plan.exact else found.extents[found.kernel[1]], plan.exact)
    sch.reorder(n, o0, y0, x0, i, ky, kx0, kx1, y1, x1, o1, lane)
    return TiledLoops((n, o0, y0), x0, i, kx1)


def _pack_loops(sch: Schedule, pack: Any, plan: DirectConvPlan) -> None:
    o, i, ky, kx = sch.get_loops(pack)
    o0, lane = sch.split(o, [None, plan.lanes], preserve_unit_iters=True)
    sch.reorder(o0, i, ky, kx, lane)
    sch.parallel(sch.fuse(o0, i))
    sch.vectorize(lane)
