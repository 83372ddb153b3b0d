"""Products of few rows whose operands both lie along the reduction: read as they lie, summed across lanes at the end.

To put B into panels takes a pass over it, which few rows do not pay for. Here a vector holds neighbours along the
reduction instead of columns: each accumulator of a tile is a vector of partial results, and B is read once, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.s_tir import Schedule
from tvm.tirx import IterVar

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules.base import Rule, Variant
from workers.tvm_backend.design_space.rules.contraction import Contraction, axes_of, factors_of, find
from workers.tvm_backend.design_space.rules.dots import accumulate
from workers.tvm_backend.design_space.rules.epilogue import fold, foldable
from workers.tvm_backend.design_space.rules.product import axes_of_result, tiled_axis
from workers.tvm_backend.design_space.rules.registers import Tile, product_tiles
from workers.tvm_backend.design_space.rules.stages import fused, last_axis, partial_results

AROUND = 3
"""Loops around a tile: what threads share, columns, and rows."""


class InnerProduct(Rule):
    """Applies to ``C[b, m, n] += A[b, m, k] * B[b, n, k]`` of few rows and a deep reduction in whole vectors.

    A single row is left to ``Rows``. Sketches: the two most promising numbers of rows that divide them. Knob: columns
    of a tile and of what a thread takes.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = find(sch)
        if found is None or not _lies_along(sch, found, cpu) or not foldable(sch, sch.get_sblock(found.block)):
            return
        rows, columns = found.extents[tiled_axis(found)], found.extents[found.column]
        if 1 < rows <= min(cpu.inner_product_rows, found.extents[-1] // cpu.inner_product_steps):
            for tile in product_tiles(cpu, 1, rows, columns, whole=True):
                yield partial(_schedule, plan=InnerProductPlan(found, tile, cpu))


@dataclass(frozen=True)
class InnerProductPlan:
    """What is fixed in a sketch.

    Attributes:
        tile: rows of a tile, and its columns at most.
        cpu: CPU that the sketch is for.
    """

    found: Contraction
    tile: Tile
    cpu: CpuModel

    @property
    def partials(self) -> tuple[int, ...]:
        """How many partial results there are of each element, after each step but the last."""
        lanes, few = self.cpu.lanes(), self.cpu.scalar_partials
        return (lanes, few) if lanes > few else (lanes,)


def _lies_along(sch: Schedule, found: Contraction, cpu: CpuModel) -> bool:
    """Whether both operands are plain and have the only axis of the reduction last, in whole vectors."""
    block = sch.get(sch.get_sblock(found.block))
    variables = [each.var for each in block.iter_vars]
    depth = len(variables) - 1
    if found.panel or found.reduction != (depth,) or found.extents[depth] % cpu.lanes():
        return False
    if len(axes_of(block.body.indices, variables) or ()) != len(block.body.indices):
        return False
    loads = factors_of(block) or ()
    types = {found.dtype, *(str(load.source.dtype) for load in loads)}
    return types == {"float32"} and all(axes_of([load.indices[-1]], variables) == [depth] for load in loads)


def _schedule(sch: Schedule, plan: InnerProductPlan) -> None:
    block = sch.get_sblock(plan.found.block)
    dimensions = axes_of_result(sch, block)
    last = fold(sch, block)
    first, *sums = partial_results(sch, block, sch.get_loops(block)[-1], plan.partials)
    written = block if last is None else sch.get_sblock(last)
    loops = sch.get_loops(written)
    places = dimensions if last is None else range(len(dimensions))
    tile = _tile(sch, dict(zip(dimensions, (loops[at] for at in places), strict=True)), plan)
    for each in (*([] if last is None else [block]), *reversed(sums), first):
        sch.set_scope(each, 0, "local")
        sch.compute_at(each, tile, preserve_unit_loops=True)
    for each in (first, *sums):
        _add_up(sch, each, sch.get_loops(each)[AROUND:], straight=each is not first)
    if last is not None:
        own = sch.get_loops(block)[AROUND:]
        summed = _summed(sch, block)
        sch.reorder(*(loop for at, loop in enumerate(own) if at != summed), own[summed])
    for each in dict.fromkeys([block, written]):
        for loop in sch.get_loops(each)[AROUND:]:
            sch.unroll(loop)
    sch.decompose_reduction(block, sch.get_loops(block)[-1])


def _tile(sch: Schedule, loops: dict[int, Any], plan: InnerProductPlan) -> Any:
    """The innermost loop around a tile. All rows meet some columns before the next ones come."""
    found = plan.found
    outer = [loops[at] for at in (*found.batch, *found.rows) if at != tiled_axis(found)]
    i0, i1 = sch.split(loops[tiled_axis(found)], [None, plan.tile.scalars], preserve_unit_iters=True)
    column = loops[found.column]
    factors = sch.sample_perfect_tile(column, 3, plan.tile.vectors)
    j0, j1, j2 = sch.split(column, factors, preserve_unit_iters=True)
    sch.reorder(*outer, j0, j1, i0, i1, j2)
    sch.parallel(fused(sch, [*outer, j0]))
    return i0


def _add_up(sch: Schedule, block: Any, loops: list[Any], straight: bool) -> None:
    """Arrange the loops of a stage of partial results within a tile; each of these loops is one axis.

    Args:
        straight: unroll the steps, too.
    """
    summed, lane = _summed(sch, block), last_axis(sch, block)
    rest = [loop for at, loop in enumerate(loops) if at not in (summed, lane)]
    sch.reorder(loops[summed], *rest, loops[lane])
    if straight:
        sch.unroll(loops[summed])
    accumulate(sch, block, loops[summed], len(rest) + 1, None)


def _summed(sch: Schedule, block: Any) -> int:
    """The axis of a sum that its steps are."""
    kinds = [int(each.iter_type) for each in sch.get(block).iter_vars]
    return kinds.index(IterVar.CommReduce)
