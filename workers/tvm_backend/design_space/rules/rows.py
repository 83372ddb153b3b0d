"""Reductions along rows and what is made of them: softmax, normalisations, sums along the last axes.

A thread takes a chunk of rows; every stage is computed for a row before the next stage begins, so that a row stays in
the nearest cache. A reduction keeps one partial result for each lane, as many as one, two or four registers hold, and
combines them in a few steps at the end of the row, which breaks the chain of dependent additions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules.base import Rule, Variant
from workers.tvm_backend.design_space.rules.stages import (
    Stage,
    chunked,
    conditions,
    find,
    fused,
    inline,
    last_axis,
    partial_results,
    size,
    unroll_and_vectorize,
    widest,
)


class Rows(Rule):
    """Applies where every stage runs over the same rows and some reduce the columns, which are contiguous.

    Sketches: one, two or four registers of partial results; what several stages read is kept, or computed again where
    that is cheap. Knob: rows of a chunk; a single chunk is a program without threads.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = match(find(sch))
        if found is None:
            return
        plans = (
            RowsPlan(found, lanes, registers, inlined, cpu)
            for lanes, registers in widths(found.columns, cpu)
            for inlined in dict.fromkeys(found.inlined(nodes) for nodes in (0, cpu.cheap_nodes))
        )
        for plan in plans:
            yield partial(_schedule, plan=plan)


@dataclass(frozen=True)
class RowProgram:
    """Stages over rows.

    Attributes:
        stages: in the order of the program, the output last.
        rank: axes that make up the rows.
        columns: elements of a row.
        cut: rows were made longer, to whole vectors, and the output leaves their ends out.
    """

    stages: tuple[Stage, ...]
    rank: int
    columns: int
    cut: bool = False

    def full(self, stage: Stage) -> bool:
        """The stage has a value for each column, not one for the row."""
        return not stage.reduction and math.prod(stage.spatial[self.rank :]) > 1

    def inlined(self, cheap: int) -> tuple[str, ...]:
        """Names of the stages that go into their readers.

        Stages with several readers only up to ``cheap`` nodes; always those over other axes than the rows, such as a
        mask.
        """
        return tuple(stage.name for stage in self.stages if self._inlined(stage, cheap))

    def _inlined(self, stage: Stage, cheap: int) -> bool:
        if not stage.consumers or stage.reduction:
            return False
        if stage.spatial[: self.rank] != self.stages[-1].spatial[: self.rank]:
            return True
        return self.full(stage) and (len(stage.consumers) == 1 or size(stage.block.body.value) <= cheap)


@dataclass(frozen=True)
class RowsPlan:
    """What is fixed in a sketch.

    Attributes:
        lanes: lanes of a vector operation.
        registers: registers of partial results, and vector operations that are unrolled.
        inlined: stages that go into their readers.
        cpu: CPU that the sketch is for.
    """

    found: RowProgram
    lanes: int
    registers: int
    inlined: tuple[str, ...]
    cpu: CpuModel

    @property
    def partials(self) -> tuple[int, ...]:
        """How many partial results a reduction has after each of its steps except the last."""
        steps = (self.lanes * self.registers, self.lanes, self.cpu.scalar_partials)
        return tuple(
            step
            for at, step in enumerate(steps)
            if step > 1 and (at == 0 or step < steps[at - 1]) and not (at and steps[at - 1] % step)
        )

    @property
    def vectors(self) -> bool:
        """There are lanes; otherwise the loops along a row are left to the compiler."""
        return self.lanes > 1


def widths(columns: int, cpu: CpuModel) -> list[tuple[int, int]]:
    """Lanes and registers that divide a row; fewer lanes where not even one register does, of any number if need be."""
    found = [(cpu.lanes(), many) for many in cpu.row_registers if columns % (many * cpu.lanes()) == 0]
    if found:
        return found
    lanes = widest(columns, cpu.lanes())
    if lanes < cpu.min_lanes:
        lanes = max(lanes for lanes in range(1, cpu.lanes() + 1) if columns % lanes == 0)
    return [(lanes, 1)]


def match(stages: list[Stage] | None) -> RowProgram | None:
    """The stages as a program over rows; None when they are something else."""
    reductions = [stage for stage in stages or () if stage.reduction]
    if not stages or not reductions or not reductions[0].spatial or not all(stage.in_lanes for stage in stages):
        return None
    columns, spatial = math.prod(reductions[0].reduction), reductions[0].spatial
    rank = max([1, *(at + 1 for at, extent in enumerate(spatial) if extent > 1)])
    if columns == 1:
        return None
    ends = math.prod(stages[-1].spatial[rank:])
    cut = 1 < ends < columns and any(conditions(stage.block.body) for stage in stages)
    for stage in stages:
        own = math.prod(stage.spatial[rank:])
        foreign = stage.spatial[:rank] != spatial[:rank] or own not in (1, columns, *([ends] if cut else []))
        if foreign and (stage.reduction or not stage.consumers):
            return None
        if stage.reduction and (own > 1 or math.prod(stage.reduction) != columns or not _contiguous(stage, rank)):
            return None
    return RowProgram(tuple(stages), rank, columns, cut)


def _contiguous(stage: Stage, rank: int) -> bool:
    """One of its loads runs through each row by its last index, and no index mixes rows with columns."""
    rows = {at for at in range(rank) if stage.spatial[at] > 1}
    columns = {len(stage.spatial) + at for at, extent in enumerate(stage.reduction) if extent > 1}
    through = False
    for load in stage.loads():
        axes = [stage.axes_of(index) for index in load.indices]
        if any(each & rows and each & columns for each in axes):
            return False
        own = [each for each in axes if each]
        through |= rows | columns <= set().union(*axes) and (not columns or own[-1] == {max(columns)})
    return through


def _schedule(sch: Schedule, plan: RowsPlan) -> None:
    found = plan.found
    inline(sch, plan.inlined)
    for stage in found.stages:
        if stage.reduction:
            _partial_results(sch, stage, plan)
    *stages, last = sch.get_child_blocks(sch.get_sblock("root"))
    if plan.cpu.on_stack(found.columns):
        for block in stages:
            sch.set_scope(block, 0, "local")
    chunks, row = chunked(sch, sch.get_loops(last)[: found.rank])
    sch.reorder(*chunks, row)
    sch.parallel(fused(sch, chunks))
    for block in reversed(stages):
        sch.compute_at(block, row, preserve_unit_loops=True)
    for block in stages:
        _row_loops(sch, block, sch.get_loops(block)[2:], plan)
    _last_loops(sch, last, plan)


def _partial_results(sch: Schedule, stage: Stage, plan: RowsPlan) -> None:
    block = sch.get_sblock(stage.name)
    partial_results(sch, block, fused(sch, sch.get_loops(block)[len(stage.spatial) :]), plan.partials)


def _row_loops(sch: Schedule, block: Any, loops: list[Any], plan: RowsPlan) -> None:
    """Arrange the loops of a stage within a row; each of these loops is one axis."""
    body = sch.get(block)
    reduced = [at for at, each in enumerate(body.iter_vars) if int(each.iter_type) == each.CommReduce]
    lane = last_axis(sch, block)
    if not reduced:
        if plan.found.cut and sch.can_decompose_padding(block, loops[-1]):
            # What fills up the row first: rows are copied without a test for each element, by the compiler's vectors.
            filled = sch.decompose_padding(block, loops[-1])
            loops = [*loops[: plan.found.rank], *sch.get_loops(filled)[-1:]]
        _vectors(sch, loops[plan.found.rank :], plan)
        return
    steps = fused(sch, [loops[at] for at in reduced])
    if int(sch.get(loops[lane]).extent) == 1:  # no partial results: the last axis written is one of the rows
        if plan.partials:
            sch.unroll(steps)
        sch.decompose_reduction(block, steps)
        return
    inner = loops[lane]
    sch.reorder(steps, inner)
    first = int(sch.get(inner).extent) == plan.lanes * plan.registers and plan.registers > 1
    parts = list(sch.split(inner, [None, plan.lanes], preserve_unit_iters=True)) if first else [inner]
    if not first and int(sch.get(steps).extent) <= 4:
        sch.unroll(steps)
    unroll_and_vectorize(sch, parts)
    init = sch.decompose_reduction(block, steps)
    unroll_and_vectorize(sch, sch.get_loops(init)[-len(parts) :])


def _vectors(sch: Schedule, loops: list[Any], plan: RowsPlan) -> None:
    """Vectorise a stage with a value for each column; one with a value for the row has nothing to vectorise."""
    if not loops or not plan.vectors:
        return
    loop = fused(sch, loops)
    steps = int(sch.get(loop).extent)
    if steps > 1 and steps % (plan.registers * plan.lanes) == 0:
        _, registers, lane = sch.split(loop, [None, plan.registers, plan.lanes], preserve_unit_iters=True)
        unroll_and_vectorize(sch, [registers, lane])


def _last_loops(sch: Schedule, block: Any, plan: RowsPlan) -> None:
    loops = sch.get_loops(block)[2:]
    if plan.found.stages[-1].reduction:
        if plan.partials:
            sch.unroll(loops[-1])
        sch.decompose_reduction(block, loops[-1])
    else:
        _vectors(sch, loops, plan)
