"""Matmul-like reductions: one operand in column panels, a tile of accumulators kept in vector registers.

The structure of every fast CPU gemm (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008):
``rows x panels`` accumulators stay in registers over the whole reduction, the packed operand is read in the order in
which it lies in memory, and what follows (bias, activation, residual) is computed on the tile before it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules import rounding
from workers.tvm_backend.design_space.rules.base import Rule, Variant
from workers.tvm_backend.design_space.rules.contraction import Contraction, find
from workers.tvm_backend.design_space.rules.dots import dot_of, place_widening, seen_by_tiles, widening
from workers.tvm_backend.design_space.rules.epilogue import fold, foldable
from workers.tvm_backend.design_space.rules.matrix import blocks_of_tiles, dot_of_tiles, rows_of_a_tile
from workers.tvm_backend.design_space.rules.product import Pack, Packing, ProductPlan, arrange, tiled_axis
from workers.tvm_backend.design_space.rules.registers import Tile, product_tiles
from workers.tvm_backend.design_space.rules.stages import fused, widest
from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.intrinsics import PAIRS, SUMS
from workers.tvm_backend.dot.matrix import MatrixDot
from workers.tvm_backend.dot.unit import COLUMNS


class PackedMatmul(Rule):
    """Applies to ``C[b, m, n] += A[b, m, k] * B[b, k, n]``. There may be any number of batch, row and reduction axes; B
    is plain or in panels already.

    Sketches: tiles of the two most promising numbers of rows, padded where they do not divide; B packed beforehand,
    for a tile, or not at all, and a deep reduction then in one go or in pieces. Knobs: two levels of rows around a
    tile, three of panels, unrolling of the reduction, its pieces. A panel that is made here is one register wide.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = find(sch)
        wide = [] if found is None else widening(sch, sch.get_sblock(found.block))
        of_pixels = len(wide) > 1  # both operands are bits: a weight is multiplied with pixels
        if of_pixels and dot_of(cpu, cpu.lanes(), BITS) is PAIRS:
            for stage in wide:
                sch.compute_inline(stage)
            found = find(sch)
        if found is None or found.dtype != SUMS.get(found.weights, "float32") or _odd(found.panel, cpu.lanes()):
            return
        if not foldable(sch, sch.get_sblock(found.block)):
            return
        lanes = found.panel or cpu.lanes()
        dot = None if found.pair is None else dot_of(cpu, lanes, found.weights)
        if found.pair is not None and dot is None:
            return
        shape = found.extents[tiled_axis(found)], -(-found.extents[found.column] // lanes)
        made = of_pixels or (found.pair is not None and not found.panel)
        choices = packings(sch, found, lanes, cpu)
        for tile in product_tiles(seen_by_tiles(cpu, dot), max(1, lanes // cpu.lanes()), *shape):
            for packing in choices:
                yield partial(_schedule, plan=ProductPlan(found, lanes, tile, packing, cpu, dot, made))
        if of_pixels and found.pair is None:  # no instruction of vectors takes bits, and one of tiles may
            for stage in wide:
                sch.compute_inline(stage)
            found = find(sch) or found
        for tile, matrix in _tiles(cpu, found, lanes):
            for packing in choices:
                if packing is not Packing.PIECES:
                    yield partial(_schedule, plan=ProductPlan(found, lanes, tile, packing, cpu, matrix, made))


def _tiles(cpu: CpuModel, found: Contraction, lanes: int) -> Iterator[tuple[Tile, MatrixDot]]:
    """Blocks of tiles of a matrix unit, whose panels are some tiles wide."""
    extent = found.extents[tiled_axis(found)]
    rows, wide = rows_of_a_tile(extent), lanes // COLUMNS
    if not rows or lanes % COLUMNS:
        return
    matrix = dot_of_tiles(cpu, found.weights, rows, found.extents[found.reduction[-1]])
    panels = -(-found.extents[found.column] // lanes)
    for tile in blocks_of_tiles(-(-extent // rows), panels * wide) if matrix is not None else ():
        if matrix is not None and tile.vectors % wide == 0:
            yield Tile(tile.scalars * rows, tile.vectors // wide), matrix


def _odd(panel: int, lanes: int) -> bool:
    """A panel is neither some whole registers nor a part that divides one."""
    return panel > 0 and panel % lanes > 0 and lanes % panel > 0


def packings(sch: Schedule, found: Contraction, lanes: int, cpu: CpuModel) -> tuple[Packing, ...]:
    """Possible packings. Only whole vectors of neighbours in memory can be read as they lie. Pieces of a reduction
    are for a deep one, and for more rows than a tile has. With few registers a tile's columns are a line in each row:
    where several tiles use them they are packed."""
    if found.panel:
        return (Packing.GIVEN,)
    axes = _packed_axes(sch, sch.get_sblock(found.block), found)
    if axes.column != axes.rank - 1 or found.extents[found.column] % lanes:
        return Packing.BEFORE, Packing.INSIDE
    steps, shared = found.size(found.reduction), found.extents[tiled_axis(found)] > cpu.max_tile_rows
    if shared and cpu.few_registers and steps >= cpu.packed_steps:
        return Packing.BEFORE, Packing.INSIDE
    deep = shared and steps >= cpu.deep_steps
    return Packing.BEFORE, Packing.INSIDE, Packing.NONE, *((Packing.PIECES,) if deep else ())


def _schedule(sch: Schedule, plan: ProductPlan) -> None:
    found, block = plan.found, sch.get_sblock(plan.found.block)
    packs = plan.packing in (Packing.BEFORE, Packing.INSIDE)
    if plan.dot is not None:
        place_widening(sch, block, plan.dot)
    elif plan.made:
        _widen_rows(sch, block, plan)
    axes = _packed_axes(sch, block, found) if packs else None
    rounded = None if plan.ragged else rounding.find(sch, block, plan.dot)
    last = fold(sch, block, rounded)
    if plan.ragged:
        _pad(sch, block, plan)
    pack = None if axes is None else _packed(sch, block, plan, axes)
    written = _write_back(sch, block, plan)
    if last is not None:
        sch.reverse_compute_inline(sch.get_sblock(last))
    arrange(sch, block, written, pack, plan, rounded)


def _pad(sch: Schedule, block: Any, plan: ProductPlan) -> None:
    """Round rows and columns up to whole tiles; what is read beyond the rows' end is zero.

    Panels hide the columns' index from ``pad_einsum``, so they are unfolded while it works. Where weights are in
    panels, or tiles narrow, rows are copied with their zeros. A test for each value in the innermost loop takes as long
    as the products: of 197 rows of 192 features 68 us, of which a copy leaves 33 (Zen 5).
    """
    found = plan.found
    padding = [1] * len(found.extents)
    padding[found.column], padding[tiled_axis(found)] = plan.lanes, plan.tile.scalars
    unfolded = sch.reindex(block, ("read", found.packed)) if found.panel else None
    rows = sch.get(block).reads[found.other].source
    sch.pad_einsum(block, padding)
    for producer in sch.get_producers(block):
        if any(region.source.same_as(rows) for region in sch.get(producer).reads):
            if plan.dot is not None:
                _copy_loops(sch, producer, plan)
            elif plan.packing is Packing.GIVEN or plan.cpu.few_registers:  # see above
                sch.parallel(fused(sch, sch.get_loops(producer)[:-1]))
            else:
                sch.compute_inline(producer)
    if unfolded is not None:
        sch.compute_inline(unfolded)


def _copy_loops(sch: Schedule, copy: Any, plan: ProductPlan) -> None:
    """Schedule the stage that pads rows of pairs or quads: no instruction takes them under a condition."""
    *rows, depth, pair = sch.get_loops(copy)
    values = sch.fuse(depth, pair)
    lanes = widest(int(sch.get(values).extent), plan.dot.lanes if plan.dot else 1)
    _, lane = sch.split(values, [None, lanes], preserve_unit_iters=True)
    sch.vectorize(lane)
    sch.parallel(fused(sch, rows))


def _widen_rows(sch: Schedule, block: Any, plan: ProductPlan) -> None:
    """Schedule the stage that widens the operand with the rows."""
    rows = sch.get(block).reads[plan.found.other].source
    (wide,) = [each for each in widening(sch, block) if sch.get(each).writes[0].source.same_as(rows)]
    *outer, depth, pair = sch.get_loops(wide)
    sch.fuse(depth, pair)  # LLVM makes vectors of all of them
    sch.parallel(fused(sch, outer))


def _packed(sch: Schedule, block: Any, plan: ProductPlan, axes: _Axes) -> Pack:
    """The stage that packs: the padding of the operand or what makes it, which is then no step of its own."""
    pack = _padding_of(sch, block, plan) or sch.cache_read(block, plan.found.packed, "global")
    while plan.made and (makers := sch.get_producers(pack)):
        sch.compute_inline(makers[0])
    steps = [axis for axis in range(axes.lead, axes.rank) if axis not in (axes.column, axes.shared)]

    def panels(*at: Any) -> tuple[Any, ...]:
        column, rest, shared = at[axes.column], [at[axis] for axis in steps], at[axes.shared : axes.shared + 1]
        return (*at[: axes.lead], column // plan.lanes, *rest, column % plan.lanes, *shared)

    sch.transform_layout(pack, ("write", 0), panels)
    return Pack(pack, axes.lead, axes.column, axes.rank, axes.shared < axes.rank)


def _padding_of(sch: Schedule, block: Any, plan: ProductPlan) -> Any | None:
    """The stage that pads the packed operand, or that makes it, if there is one."""
    read = sch.get(block).reads[plan.found.packed].source
    padded = plan.found.extents[plan.found.column] % plan.lanes > 0
    stages = sch.get_producers(block) if padded or plan.made else ()
    return next((each for each in stages if sch.get(each).writes[0].source.same_as(read)), None)


def _write_back(sch: Schedule, block: Any, plan: ProductPlan) -> Any:
    """The stage that writes a tile: what cuts the padding off where there is some."""
    if not plan.ragged:
        return sch.cache_write(block, 0, plan.scope)
    (crop,) = sch.get_consumers(block)
    sch.set_scope(block, 0, plan.scope)
    return crop


@dataclass(frozen=True)
class _Axes:
    """Axes of the packed operand: leading batch axes, the axis of the columns, all axes, that of what shares a lane.

    The last one is beyond all axes where there is none.
    """

    lead: int
    column: int
    rank: int
    shared: int


def _packed_axes(sch: Schedule, block: Any, found: Contraction) -> _Axes:
    body = sch.get(block)
    region = body.reads[found.packed].region
    column = body.iter_vars[found.column].var
    batch = [body.iter_vars[at].var for at in found.batch]
    lead = 0
    while lead < len(region) and any(region[lead].min.same_as(var) for var in batch):
        lead += 1
    place = next(at for at, one in enumerate(region) if one.min.same_as(column))
    return _Axes(lead, place, len(region), len(region) - (found.pair is not None))
