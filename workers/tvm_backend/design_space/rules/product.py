"""How a product whose operands are at hand is computed: tiles of accumulators in vector registers.

``rows x panels`` accumulators stay in registers over the whole reduction (Goto and van de Geijn, "Anatomy of
high-performance matrix multiplication", 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules import rounding
from workers.tvm_backend.design_space.rules.contraction import Contraction, axes_of
from workers.tvm_backend.design_space.rules.dots import accumulate
from workers.tvm_backend.design_space.rules.matrix import TileLoops, in_tiles
from workers.tvm_backend.design_space.rules.registers import Tile, largest_divisor
from workers.tvm_backend.design_space.rules.stages import fused, widest
from workers.tvm_backend.dot.intrinsics import Dot
from workers.tvm_backend.dot.matrix import MatrixDot


class Packing(Enum):
    """What becomes of the operand with the columns.

    Attributes:
        GIVEN: it lies in panels.
        BEFORE: all of it is packed first.
        INSIDE: a thread packs some panels for itself before their first use. All of them are then used by a row of
            tiles before the next one, or each by all rows: what another core packed lies in that core's cache.
        NONE: it is read as it lies; fastest where there are few rows to use a panel again.
        PIECES: so, too, but some steps of the reduction for all rows of a chunk before the next ones, whose part of a
            panel stays in a near cache; accumulators lie in memory between (Goto and van de Geijn, 2008).
    """

    GIVEN = auto()
    BEFORE = auto()
    INSIDE = auto()
    NONE = auto()
    PIECES = auto()


@dataclass(frozen=True)
class ProductPlan:
    """What is fixed in a sketch.

    Attributes:
        lanes: columns of a panel.
        tile: rows of a tile, to a multiple of which the tiled row axis is padded, and its panels at most.
        packing: packing of the operand with the columns.
        cpu: CPU that the sketch is for.
        dot: how what shares a lane is multiplied; None where the operands are float32.
        made: a stage of the kernel makes the operand with the columns; it packs.
    """

    found: Contraction
    lanes: int
    tile: Tile
    packing: Packing
    cpu: CpuModel
    dot: Dot | None = None
    made: bool = False

    @property
    def ragged(self) -> bool:
        """Something is padded."""
        extents = self.found.extents
        return bool(extents[self.found.column] % self.lanes or extents[tiled_axis(self.found)] % self.tile.scalars)

    @property
    def in_pieces(self) -> bool:
        """The reduction is interrupted."""
        return self.packing is Packing.PIECES

    @property
    def matrix(self) -> MatrixDot | None:
        """The instruction of a matrix unit, if it is one."""
        return self.dot if isinstance(self.dot, MatrixDot) else None

    @property
    def scope(self) -> str:
        """Where accumulators are: in registers, or in memory between two pieces of the reduction."""
        return "global" if self.in_pieces else "local"

    @property
    def piece(self) -> int:
        """Lanes that are copied at a time: where columns pad the last panel, so few that one test does for all."""
        found = widest(self.found.extents[self.found.column], self.lanes)
        return found if found >= self.cpu.min_lanes else 1


def tiled_axis(found: Contraction) -> int:
    """The longest row axis. The others are not fused with it: a tile across the end of one is no box of the result, and
    its write-back would cover what was not computed."""
    return max(found.rows, key=lambda axis: found.extents[axis])


@dataclass(frozen=True)
class Pack:
    """The stage that packs an operand into panels.

    Attributes:
        block: it writes the panels.
        lead: batch axes in front.
        column: the axis of the columns.
        rank: all of its axes.
        shared: the last axis is of what shares a lane.
    """

    block: Any
    lead: int
    column: int
    rank: int
    shared: bool = False


def arrange(
    sch: Schedule, block: Any, written: Any, pack: Pack | None, plan: ProductPlan, rounded: str | None = None
) -> None:
    """Tile a product and everything around it.

    Args:
        block: the product, into a local buffer.
        written: the stage that writes a tile.
        pack: the stage that packs; None where there is none.
        rounded: name of the stage that rounds what is written; None where it does that itself.
    """
    moved = sch.cache_write(block, 0, "local") if plan.matrix else None
    loops = _tile(sch, block, plan)
    if moved is not None:
        sch.reverse_compute_at(moved, loops.tile, preserve_unit_loops=True)
    sch.reverse_compute_at(written, loops.panels if plan.in_pieces else loops.tile, preserve_unit_loops=True)
    sch.parallel(sch.fuse(*loops.outer))
    if pack is not None:
        _pack_loops(sch, pack, plan, loops.panels if plan.packing is Packing.INSIDE else None)
    if plan.matrix is not None and loops.tiles is not None:
        below = axes_of_result(sch, block).index(tiled_axis(plan.found))
        in_tiles(sch, block, moved, below, loops.reduction, loops.tiles, plan.matrix)
    else:
        sch.unroll(loops.steps)
        accumulate(sch, block, loops.reduction, 3 if plan.dot is None else 4, plan.dot)
    if rounded is not None:
        rounding.place(sch, written, rounded, loops.tile, len(sch.get(written).iter_vars))
    else:
        _write_back_loops(sch, written, plan)


def axes_of_result(sch: Schedule, block: Any) -> list[int]:
    """Which of a block's axes each dimension of its result is."""
    body = sch.get(block)
    return axes_of(body.body.indices, [each.var for each in body.iter_vars]) or []


@dataclass(frozen=True)
class _Loops:
    """Loops of the tiled block, from the outermost inwards.

    A reduction in pieces begins outside of the rows; that of a matrix unit has tiles instead of steps.

    Attributes:
        outer: loops that threads share.
        panels: loop around the panels that are packed together.
        tile: innermost loop around a tile.
    """

    outer: tuple[Any, ...]
    panels: Any
    tile: Any
    reduction: Any
    steps: Any
    tiles: TileLoops | None = None


def _tile(sch: Schedule, block: Any, plan: ProductPlan) -> _Loops:
    found, loops = plan.found, sch.get_loops(block)
    outer = [loops[at] for at in (*found.batch, *found.rows) if at != tiled_axis(found)]
    i, column, reduction = loops[tiled_axis(found)], loops[found.column], [loops[at] for at in found.reduction]
    pair = [] if found.pair is None else [loops[found.pair]]
    sch.reorder(*outer, i, column, *reduction, *pair)
    if plan.matrix is not None:
        *reduction, depth = reduction
        pieces, depth = sch.split(depth, [None, plan.matrix.steps], preserve_unit_iters=True)
        reduction.append(pieces)
        pair = [depth, *pair]
    r = fused(sch, reduction)
    tiles, i2 = sch.split(i, [None, plan.tile.scalars], preserve_unit_iters=True)
    count = int(sch.get(tiles).extent)
    i0, i1 = sch.split(tiles, sch.sample_perfect_tile(tiles, 2, count), preserve_unit_iters=True)
    panel, lane = sch.split(column, [None, plan.lanes], preserve_unit_iters=True)
    vector = [lane] if plan.dot is None else sch.split(lane, [None, plan.dot.lanes], preserve_unit_iters=True)
    parts = sch.sample_perfect_tile(panel, 4 if plan.packing is Packing.INSIDE else 3, plan.tile.vectors)
    j0, j1, *packed, j2 = sch.split(panel, parts, preserve_unit_iters=True)
    if plan.matrix is not None:
        rows, row = sch.split(i2, [None, plan.matrix.rows], preserve_unit_iters=True)
        register, lane = vector
        sch.reorder(i0, j0, j1, i1, *packed, r, rows, j2, register, row, lane, *pair)
        return _Loops((*outer, i0, j0), j1, [i1, *packed][-1], r, None, TileLoops((rows, j2, register), row))
    factors = sch.sample_perfect_tile(r, 3 if plan.in_pieces else 2, plan.cpu.unrolled_steps)
    *pieces, r0, r1 = sch.split(r, factors, preserve_unit_iters=True)
    sch.reorder(i0, j0, j1, *pieces, i1, *packed, r0, r1, i2, j2, *vector, *pair)
    return _Loops((*outer, i0, j0), j1, [i1, *packed][-1], [*pieces, r0][0], r1)


def _write_back_loops(sch: Schedule, written: Any, plan: ProductPlan) -> None:
    """A vector at a time, or all of a row where no vector divides its columns."""
    *_, rows, columns = sch.get_loops(written)
    if not plan.in_pieces and plan.matrix is None:  # else these are the rows of many tiles
        sch.unroll(rows)
    if plan.piece == 1:
        sch.vectorize(columns)
        return
    panels, lane = sch.split(columns, [None, plan.piece], preserve_unit_iters=True)
    sch.unroll(panels)
    sch.vectorize(lane)


def _pack_loops(sch: Schedule, pack: Pack, plan: ProductPlan, around: Any | None) -> None:
    """Some panels at a time, so that what is read lies together.

    Args:
        around: the loop inside which the panels of a tile are packed; None for all panels beforehand.
    """
    if around is not None:
        sch.compute_at(pack.block, around, preserve_unit_loops=True)
    own = sch.get_loops(pack.block)[-pack.rank :]
    panel, lane = sch.split(own[pack.column], [None, plan.lanes], preserve_unit_iters=True)
    shared = own[-1:] if pack.shared else []
    rest = [loop for at, loop in enumerate(own[: pack.rank - len(shared)]) if at >= pack.lead and at != pack.column]
    if around is None:
        together = largest_divisor(int(sch.get(panel).extent), plan.cpu.packed_panels)
        outer, panel = sch.split(panel, [None, together], preserve_unit_iters=True)
        sch.reorder(*own[: pack.lead], outer, *rest, panel, lane, *shared)
        sch.parallel(fused(sch, [*own[: pack.lead], outer]))
    else:
        sch.reorder(*own[: pack.lead], *rest, panel, lane, *shared)
    if pack.shared:  # LLVM makes vectors of what is put between one another, TVM would store values one by one
        sch.unroll(shared[0])
        return
    if 1 < plan.piece < plan.lanes:
        pieces, lane = sch.split(lane, [None, plan.piece], preserve_unit_iters=True)
        sch.unroll(pieces)
    sch.vectorize(lane)
