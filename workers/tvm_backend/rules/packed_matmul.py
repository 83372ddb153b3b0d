"""Matmul-like reductions: one operand packed into column panels, a tile of accumulators kept in vector registers.

The structure of every fast CPU gemm (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008):
``rows x panel`` accumulators stay in registers over the whole reduction, the packed operand is read in the order in
which it lies in memory, and what follows (bias, activation, residual) is computed on the tile before it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from workers.tvm_backend.rules.base import Rule, Variant
from workers.tvm_backend.rules.contraction import Contraction, find
from workers.tvm_backend.rules.epilogue import fold
from workers.tvm_backend.rules.machine import Machine

WIDTHS = (1, 2, 4)
"""Registers across a panel."""
MOST_ROWS = 16
"""Rows of a tile at most."""
ROW_MULTIPLES = (6, 8)
"""Rows are padded to a multiple of one of these where they have no divisor that a tile could have."""
GOOD_ROWS = (4, 6, 7, 8, 12, 13, 14, 16)
UNROLLED = 8
"""Steps of the reduction that are unrolled at most."""
PANELS_TOGETHER = 64


class PackedMatmul(Rule):
    """Applies to ``C[b, m, n] += A[b, m, k] * B[b, k, n]`` with any number of batch, row and reduction axes.

    Sketches: panels of one, two or four registers; where rows have no fitting divisor, padded to two multiples; with a
    batch, packed beforehand or by the thread that works on it. Knobs: three levels of rows, two of panels, unrolling of
    the reduction.
    """

    def variants(self, sch: Schedule, machine: Machine) -> Iterator[Variant]:
        """See ``Rule``."""
        found = find(sch)
        if found is None or not found.dtype.startswith("float32"):
            return
        for width in WIDTHS:
            lanes = width * machine.lanes
            if lanes > max(machine.lanes, found.extents[found.column]):
                continue
            for rows in row_multiples(found):
                for inside in (False, True) if found.batch else (False,):
                    yield partial(_schedule, plan=Plan(found, lanes, rows, inside))


@dataclass(frozen=True)
class Plan:
    """What is fixed in a sketch.

    Attributes:
        lanes: columns of a panel.
        rows: the tiled row axis is padded to a multiple of it.
        inside: each thread packs what it works on.
    """

    found: Contraction
    lanes: int
    rows: int
    inside: bool

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


def _schedule(sch: Schedule, plan: Plan) -> None:
    found, block = plan.found, sch.get_sblock(plan.found.block)
    lead, column, rank = _packed_axes(sch, block, found)
    last = fold(sch, block)
    if plan.ragged:
        padding = [1] * len(found.extents)
        padding[found.column], padding[tiled_axis(found)] = plan.lanes, plan.rows
        sch.pad_einsum(block, padding)
    loops = _tile(sch, block, plan)
    pack = _packed(sch, block, plan)

    def panels(*axes: Any) -> tuple[Any, ...]:
        rest = [axis for at, axis in enumerate(axes) if at >= lead and at != column]
        return (*axes[:lead], axes[column] // plan.lanes, *rest, axes[column] % plan.lanes)

    sch.transform_layout(pack, ("write", 0), panels)
    tile = _write_back(sch, block, plan)
    if last is not None:
        sch.reverse_compute_inline(sch.get_sblock(last))
    sch.reverse_compute_at(tile, loops.rows, preserve_unit_loops=True)
    threads = sch.fuse(*loops.outer)
    sch.parallel(threads)
    _pack_loops(sch, pack, (lead, column, rank), plan.lanes, threads if plan.inside else None)
    sch.unroll(loops.steps)
    sch.unroll(loops.tile_rows)
    sch.vectorize(loops.tile_columns)
    for part in (tile, sch.decompose_reduction(block, loops.reduction)):
        *_, rows, columns = sch.get_loops(part)
        sch.vectorize(columns)
        sch.unroll(rows)


@dataclass(frozen=True)
class _Loops:
    """Loops of the tiled block."""

    outer: tuple[Any, ...]
    rows: Any
    reduction: Any
    steps: Any
    tile_rows: Any
    tile_columns: Any


def _tile(sch: Schedule, block: Any, plan: Plan) -> _Loops:
    found, loops = plan.found, sch.get_loops(block)
    outer = [loops[at] for at in (*found.batch, *found.rows) if at != tiled_axis(found)]
    i, column, reduction = loops[tiled_axis(found)], loops[found.column], [loops[at] for at in found.reduction]
    sch.reorder(*outer, i, column, *reduction)
    r = _fused(sch, reduction)
    i0, i1, i2 = sch.split(i, sch.sample_perfect_tile(i, 3, MOST_ROWS), preserve_unit_iters=True)
    panel, j2 = sch.split(column, [None, plan.lanes], preserve_unit_iters=True)
    j0, j1 = sch.split(panel, sch.sample_perfect_tile(panel, 2, PANELS_TOGETHER), preserve_unit_iters=True)
    r0, r1 = sch.split(r, sch.sample_perfect_tile(r, 2, UNROLLED), preserve_unit_iters=True)
    sch.reorder(i0, j0, j1, i1, r0, r1, i2, j2)
    return _Loops((*outer, i0, j0), i1, r0, r1, i2, j2)


def _fused(sch: Schedule, loops: list[Any]) -> Any:
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def _packed(sch: Schedule, block: Any, plan: Plan) -> Any:
    """The stage that packs: the padding of the operand where there is one, which is then no step of its own."""
    if not plan.ragged:
        return sch.cache_read(block, plan.found.packed, "global")
    reads = [region.source for region in sch.get(block).reads]
    stages = {}
    for producer in sch.get_producers(block):
        made = sch.get(producer).writes[0].source
        stages[next(at for at, source in enumerate(reads) if source.same_as(made))] = producer
    if plan.found.other in stages:
        sch.compute_inline(stages[plan.found.other])
    return stages.get(plan.found.packed) or sch.cache_read(block, plan.found.packed, "global")


def _write_back(sch: Schedule, block: Any, plan: Plan) -> Any:
    """The stage that writes a tile: what cuts the padding off where there is some."""
    if not plan.ragged:
        return sch.cache_write(block, 0, "local")
    (crop,) = sch.get_consumers(block)
    sch.set_scope(block, 0, "local")
    return crop


def _packed_axes(sch: Schedule, block: Any, found: Contraction) -> tuple[int, int, int]:
    """Of the packed operand: leading batch axes, the axis of the columns, all axes."""
    body = sch.get(block)
    region = body.reads[found.packed].region
    column = body.iter_vars[found.column].var
    batch = [body.iter_vars[at].var for at in found.batch]
    lead = 0
    while lead < len(region) and any(region[lead].min.same_as(var) for var in batch):
        lead += 1
    return lead, next(at for at, one in enumerate(region) if one.min.same_as(column)), len(region)


def _pack_loops(sch: Schedule, pack: Any, axes: tuple[int, int, int], lanes: int, threads: Any | None) -> None:
    lead, column, rank = axes
    if threads is not None:
        sch.compute_at(pack, threads, preserve_unit_loops=True)
    own = sch.get_loops(pack)[-rank:]
    panel, lane = sch.split(own[column], [None, lanes], preserve_unit_iters=True)
    rest = [loop for at, loop in enumerate(own) if at >= lead and at != column]
    sch.reorder(*own[:lead], panel, *rest, lane)
    if threads is None:
        sch.parallel(_fused(sch, [*own[:lead], panel]))
    sch.vectorize(lane)
