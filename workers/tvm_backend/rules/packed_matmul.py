"""Matmul-like reductions: one operand in column panels, a tile of accumulators kept in vector registers.

The structure of every fast CPU gemm (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008):
``rows x panels`` accumulators stay in registers over the whole reduction, the packed operand is read in the order in
which it lies in memory, and what follows (bias, activation, residual) is computed on the tile before it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from workers.tvm_backend.rules.base import Rule, Variant
from workers.tvm_backend.rules.contraction import Contraction, find
from workers.tvm_backend.rules.epilogue import fold, foldable
from workers.tvm_backend.rules.machine import Machine
from workers.tvm_backend.rules.registers import Tile, accumulators, innermost, largest_divisor, tile

MOST_ROWS = 16
"""Rows of a tile at most."""
ROW_MULTIPLES = (6, 8)
"""Rows are padded to a multiple of one of these where they have no divisor that a tile could have."""
GOOD_ROWS = (4, 6, 7, 8, 12, 13, 14, 16)
UNROLLED = 8
"""Steps of the reduction that are unrolled at most."""
PACKED_TOGETHER = 4
"""Panels that are packed beforehand at a time, at most: a row of them is a few cache lines that lie together."""


class Packing(Enum):
    """What becomes of the operand with the columns.

    Attributes:
        GIVEN: it lies in panels.
        BEFORE: all of it is packed first.
        INSIDE: the panels of a tile are packed before their first use.
        NONE: it is read as it lies; fastest where there are few rows to use a panel again.
    """

    GIVEN = auto()
    BEFORE = auto()
    INSIDE = auto()
    NONE = auto()


class PackedMatmul(Rule):
    """Applies to ``C[b, m, n] += A[b, m, k] * B[b, k, n]`` with any number of batch, row and reduction axes, B plain or
    in panels already.

    Sketches: B packed beforehand, for a tile, or not at all; where rows have no fitting divisor, padded to two
    multiples. Knobs: three levels of rows and of panels, unrolling of the reduction. A panel that is made here is one
    register wide.
    """

    def variants(self, sch: Schedule, machine: Machine) -> Iterator[Variant]:
        """See ``Rule``."""
        found = find(sch)
        if found is None or found.dtype != "float32" or found.panel % machine.lanes:
            return
        if not foldable(sch, sch.get_sblock(found.block)):
            return
        lanes = found.panel or machine.lanes
        for rows in row_multiples(found):
            columns = -(-found.extents[found.column] // lanes)
            padded = -(-found.extents[tiled_axis(found)] // rows) * rows
            limits = tile(accumulators(machine) * machine.lanes // lanes, padded, columns, MOST_ROWS)
            for packing in packings(sch, found, lanes):
                yield partial(_schedule, plan=Plan(found, lanes, rows, limits, packing))


@dataclass(frozen=True)
class Plan:
    """What is fixed in a sketch.

    Attributes:
        lanes: columns of a panel.
        rows: the tiled row axis is padded to a multiple of it.
        tile: limits of its rows and panels.
        packing: of the operand with the columns.
    """

    found: Contraction
    lanes: int
    rows: int
    tile: Tile
    packing: Packing

    @property
    def ragged(self) -> bool:
        """Something is padded."""
        extents = self.found.extents
        return bool(extents[self.found.column] % self.lanes or extents[tiled_axis(self.found)] % self.rows)


def tiled_axis(found: Contraction) -> int:
    """The longest row axis. The others are not fused with it: a tile across the end of one is no box of the result, and
    its write-back would cover what was not computed."""
    return max(found.rows, key=lambda axis: found.extents[axis])


def row_multiples(found: Contraction) -> tuple[int, ...]:
    """1 where a good tile divides the rows, or there are few of them."""
    extent = found.extents[tiled_axis(found)]
    if extent <= MOST_ROWS or any(extent % rows == 0 for rows in GOOD_ROWS):
        return (1,)
    return ROW_MULTIPLES


def packings(sch: Schedule, found: Contraction, lanes: int) -> tuple[Packing, ...]:
    """Those that are possible: only whole vectors of neighbours in memory can be read as they lie."""
    if found.panel:
        return (Packing.GIVEN,)
    axes = _packed_axes(sch, sch.get_sblock(found.block), found)
    if axes.column != axes.rank - 1 or found.extents[found.column] % lanes:
        return Packing.BEFORE, Packing.INSIDE
    return Packing.BEFORE, Packing.INSIDE, Packing.NONE


def _schedule(sch: Schedule, plan: Plan) -> None:
    found, block = plan.found, sch.get_sblock(plan.found.block)
    packs = plan.packing in (Packing.BEFORE, Packing.INSIDE)
    axes = _packed_axes(sch, block, found) if packs else None
    last = fold(sch, block)
    if plan.ragged:
        _pad(sch, block, plan)
    loops = _tile(sch, block, plan)
    pack = None if axes is None else _packed(sch, block, plan, axes)
    written = _write_back(sch, block, plan)
    if last is not None:
        sch.reverse_compute_inline(sch.get_sblock(last))
    sch.reverse_compute_at(written, loops.rows, preserve_unit_loops=True)
    sch.parallel(sch.fuse(*loops.outer))
    if pack is not None and axes is not None:
        _pack_loops(sch, pack, axes, plan.lanes, loops.panels if plan.packing is Packing.INSIDE else None)
    sch.unroll(loops.steps)
    innermost(sch, block, 3)
    innermost(sch, sch.decompose_reduction(block, loops.reduction), 3)
    _write_back_loops(sch, written, plan)


@dataclass(frozen=True)
class _Loops:
    """Loops of the tiled block: those that threads share, the one around the panels of a tile, and so on inwards."""

    outer: tuple[Any, ...]
    panels: Any
    rows: Any
    reduction: Any
    steps: Any


def _tile(sch: Schedule, block: Any, plan: Plan) -> _Loops:
    found, loops = plan.found, sch.get_loops(block)
    outer = [loops[at] for at in (*found.batch, *found.rows) if at != tiled_axis(found)]
    i, column, reduction = loops[tiled_axis(found)], loops[found.column], [loops[at] for at in found.reduction]
    sch.reorder(*outer, i, column, *reduction)
    r = _fused(sch, reduction)
    i0, i1, i2 = sch.split(i, sch.sample_perfect_tile(i, 3, plan.tile.scalars), preserve_unit_iters=True)
    panel, lane = sch.split(column, [None, plan.lanes], preserve_unit_iters=True)
    j0, j1, j2 = sch.split(panel, sch.sample_perfect_tile(panel, 3, plan.tile.vectors), preserve_unit_iters=True)
    r0, r1 = sch.split(r, sch.sample_perfect_tile(r, 2, UNROLLED), preserve_unit_iters=True)
    sch.reorder(i0, j0, j1, i1, r0, r1, i2, j2, lane)
    return _Loops((*outer, i0, j0), j1, i1, r0, r1)


def _fused(sch: Schedule, loops: list[Any]) -> Any:
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def _pad(sch: Schedule, block: Any, plan: Plan) -> None:
    """Round rows and columns up to whole tiles; what is read beyond the rows' end is zero.

    Panels hide the columns' index from ``pad_einsum``, so they are unfolded while it works.
    """
    found = plan.found
    padding = [1] * len(found.extents)
    padding[found.column], padding[tiled_axis(found)] = plan.lanes, plan.rows
    unfolded = sch.reindex(block, ("read", found.packed)) if found.panel else None
    rows = sch.get(block).reads[found.other].source
    sch.pad_einsum(block, padding)
    for producer in sch.get_producers(block):
        if any(region.source.same_as(rows) for region in sch.get(producer).reads):
            sch.compute_inline(producer)
    if unfolded is not None:
        sch.compute_inline(unfolded)


def _packed(sch: Schedule, block: Any, plan: Plan, axes: _Axes) -> Any:
    """The stage that packs: the padding of the operand where there is one, which is then no step of its own."""
    pack = _padding_of(sch, block, plan) or sch.cache_read(block, plan.found.packed, "global")

    def panels(*at: Any) -> tuple[Any, ...]:
        rest = [index for axis, index in enumerate(at) if axis >= axes.lead and axis != axes.column]
        return (*at[:axes.lead], at[axes.column] // plan.lanes, *rest, at[axes.column] % plan.lanes)

    sch.transform_layout(pack, ("write", 0), panels)
    return pack


def _padding_of(sch: Schedule, block: Any, plan: Plan) -> Any | None:
    """The stage that pads the packed operand, if there is one."""
    read = sch.get(block).reads[plan.found.packed].source
    stages = sch.get_producers(block) if plan.found.extents[plan.found.column] % plan.lanes else ()
    return next((each for each in stages if sch.get(each).writes[0].source.same_as(read)), None)


def _write_back(sch: Schedule, block: Any, plan: Plan) -> Any:
    """The stage that writes a tile: what cuts the padding off where there is some."""
    if not plan.ragged:
        return sch.cache_write(block, 0, "local")
    (crop,) = sch.get_consumers(block)
    sch.set_scope(block, 0, "local")
    return crop


def _write_back_loops(sch: Schedule, written: Any, plan: Plan) -> None:
    """A vector at a time; where columns are cut off, all of a row at a time, because they are no whole vectors."""
    *_, rows, columns = sch.get_loops(written)
    sch.unroll(rows)
    if plan.found.extents[plan.found.column] % plan.lanes:
        sch.vectorize(columns)
        return
    panels, lane = sch.split(columns, [None, plan.lanes], preserve_unit_iters=True)
    sch.unroll(panels)
    sch.vectorize(lane)


@dataclass(frozen=True)
class _Axes:
    """Of the packed operand: leading batch axes, the axis of the columns, all axes."""

    lead: int
    column: int
    rank: int


def _packed_axes(sch: Schedule, block: Any, found: Contraction) -> _Axes:
    body = sch.get(block)
    region = body.reads[found.packed].region
    column = body.iter_vars[found.column].var
    batch = [body.iter_vars[at].var for at in found.batch]
    lead = 0
    while lead < len(region) and any(region[lead].min.same_as(var) for var in batch):
        lead += 1
    return _Axes(lead, next(at for at, one in enumerate(region) if one.min.same_as(column)), len(region))


def _pack_loops(sch: Schedule, pack: Any, axes: _Axes, lanes: int, around: Any | None) -> None:
    """Some panels at a time, so that what is read lies together.

    Args:
        around: the loop inside which the panels of a tile are packed; None for all panels beforehand.
    """
    if around is not None:
        sch.compute_at(pack, around, preserve_unit_loops=True)
    own = sch.get_loops(pack)[-axes.rank:]
    panel, lane = sch.split(own[axes.column], [None, lanes], preserve_unit_iters=True)
    rest = [loop for at, loop in enumerate(own) if at >= axes.lead and at != axes.column]
    if around is None:
        together = largest_divisor(int(sch.get(panel).extent), PACKED_TOGETHER)
        outer, panel = sch.split(panel, [None, together], preserve_unit_iters=True)
        sch.reorder(*own[:axes.lead], outer, *rest, panel, lane)
        sch.parallel(_fused(sch, [*own[:axes.lead], outer]))
    else:
        sch.reorder(*own[:axes.lead], *rest, panel, lane)
    sch.vectorize(lane)
