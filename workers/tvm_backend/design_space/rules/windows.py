"""Reductions over a window or a few axes that keep the contiguous axis: depthwise convolution, pooling, column sums.

Accumulators of a tile stay in registers while the window is gone through. A band of rows of one plane is a thread's
unit of work; padding is read as it is needed, or a padded copy of the band is made first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.names import FLOAT32
from workers.tvm_backend.design_space.rules import row_words
from workers.tvm_backend.design_space.rules.base import Rule, Variant
from workers.tvm_backend.design_space.rules.epilogue import fold
from workers.tvm_backend.design_space.rules.registers import in_vectors
from workers.tvm_backend.design_space.rules.stages import (
    Stage,
    chunked,
    conditions,
    find,
    fused,
    unroll_and_vectorize,
    widest,
)


class Depthwise(Rule):
    """Applies to ``Y[.., c, y, x] += X[.., c, f(y, ky), g(x, kx)] * W[c, ky, kx]``, channels blocked or not. Applies
    also to any other product in which one operand depends on every axis of the output, as in convolutions of several
    groups.

    Sketches: padding copied by bands or read where it is; in NCHW also rows that the compiler vectorises, and short
    rows as one vector each. Knobs: rows of a band and of a tile, columns of a tile. What follows is computed on the
    tile. Where rows were made longer, to whole vectors, there is one: a thread copies the planes of some channels,
    zeros around them, and computes whole rows of those; knobs: channels of a thread's chunk, rows of a tile.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = match(sch)
        words = found is not None and found.weights and row_words.applies(sch, cpu)
        # With a matrix unit, to make words was seen to take longer than they save: both are offered.
        if found is not None and found.factors > 1 and (cpu.i8_tiles or not words):
            yield from variants(found, cpu)


class Pooling(Rule):
    """Applies to a reduction of one tensor whose last axis stays.

    Sketches: padding copied by bands or read where it is; in NCHW also rows that the compiler vectorises. Knobs: rows
    of a band and of a tile, columns of a tile. What follows, as the division of a mean, is computed on the tile.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = match(sch)
        if found is not None and found.factors == 1:
            yield from variants(found, cpu)


@dataclass(frozen=True)
class Window:
    """A reduction that keeps the contiguous axis.

    Attributes:
        stage: the reduction.
        sources: names of the stages before it, in order.
        blocked: the contiguous axis is no part of the window: channels of a block.
        stride: stride of the contiguous axis.
        factors: tensors that are multiplied; one is a pooling.
        cut: what follows leaves out the end of each row, which fills up the last vector.
        weights: name of the stage that widens weights; empty where they are float32.
        padded: what is before the reduction has conditions, as those of padding.
    """

    stage: Stage
    sources: tuple[str, ...]
    blocked: bool
    stride: int
    factors: int
    cut: bool = False
    weights: str = ""
    padded: bool = False

    @property
    def chooses(self) -> bool:
        """It is a maximum or a minimum that keeps what is no number.

        TVM makes no vectors of such a choice. Of lanes that are unrolled inside of the window LLVM 22 joins some to
        vectors that straddle registers, and stores them under masks: ten times the time on AVX2, and no good code with
        AVX-512. Of a loop over lanes whose body is the window it makes good vectors.
        """
        return type(self.stage.block.body.value).__name__ == "Select"

    @property
    def copied(self) -> tuple[bool, ...]:
        """Whether a padded copy is made first, of all sketches. LLVM makes no vectors of a choice that reads under a
        condition."""
        if self.cut or (self.chooses and self.padded):
            return (True,)
        return (True, False) if self.sources else (False,)

    @property
    def whole(self) -> bool:
        """Whole planes are reduced."""
        return len(self.stage.spatial) > 3 and self.stage.spatial[-3:-1] == (1, 1)


def match(sch: Schedule) -> Window | None:
    """The workload as one reduction over windows and what is element by element around it."""
    stages = find(sch)
    reductions = [stage for stage in stages or () if stage.reduction]
    if not stages or len(reductions) != 1:
        return None
    stage, at = reductions[0], stages.index(reductions[0])
    if any(later.spatial[:-1] != stage.spatial[:-1] for later in stages[at + 1 :]) or len(stage.spatial) < 2:
        return None
    weights = next((each.name for each in stages[:at] if _widens_weights(each, len(stage.spatial))), "")
    if not all(each.in_lanes for each in stages if each.name != weights):
        return None
    found = _window(stage, tuple(source.name for source in stages[:at] if source.name != weights))
    padded = any(conditions(source.block.body) for source in stages[:at])
    found = None if found is None else replace(found, weights=weights, padded=padded)
    if found is None or all(later.spatial == stage.spatial for later in stages[at + 1 :]):
        return found
    ends = {later.spatial[-1] for later in stages[at + 1 :]}
    # Only to fill up vectors is a row made longer than what is left of it.
    fits = len(ends) == 1 and max(ends) < stage.spatial[-1] and not found.blocked and found.stride == 1
    return replace(found, cut=True) if fits and found.sources else None


def _widens_weights(stage: Stage, rank: int) -> bool:
    """Whether a stage widens values that share a lane, and has fewer axes than what it is for, as weights have."""
    return row_words.splits_words(stage) and len(stage.spatial) < rank


def _window(stage: Stage, sources: tuple[str, ...]) -> Window | None:
    rank, loads = len(stage.spatial), stage.loads()
    spatial = {at for at in range(rank) if stage.spatial[at] > 1}
    whole = [load for load in loads if spatial <= set().union(*map(stage.axes_of, load.indices))]
    if not whole or rank - 1 not in spatial or rank - 1 not in stage.axes_of(whole[0].indices[-1]):
        return None
    last = whole[0].indices[-1]
    stride = _stride(last, stage.variables[rank - 1])
    if stride is None:
        return None
    return Window(stage, sources, last.same_as(stage.variables[rank - 1]), stride, len(loads))


def _stride(index: Any, variable: Any) -> int | None:
    """The factor of a variable in a sum; None when it is found in no such place."""
    if index.same_as(variable):
        return 1
    name = type(index).__name__
    if name == "Mul" and index.a.same_as(variable) and type(index.b).__name__ == "IntImm":
        return int(index.b)
    if name == "Add":
        return next((found for side in (index.a, index.b) if (found := _stride(side, variable)) is not None), None)
    return None


@dataclass(frozen=True)
class WindowsPlan:
    """What is fixed in a sketch.

    Attributes:
        lanes: lanes of a vector; 1 leaves the row to the compiler.
        copied: a padded copy of the band is made first.
        cpu: CPU that the sketch is for.
    """

    found: Window
    lanes: int
    copied: bool
    cpu: CpuModel


def variants(found: Window, cpu: CpuModel) -> Iterator[Variant]:
    """Variants of a window: vectors where the contiguous axis has them; a padded copy, or none where it can be
    avoided. A row that is shorter than a vector may be one as well."""
    extent = found.stage.spatial[-1]
    lanes = widest(extent, max(cpu.lanes(), extent if found.blocked and extent <= 64 else 0))
    by_compiler = found.chooses and not found.cut
    choices = [lanes] if lanes >= cpu.min_lanes and found.stride == 1 and not by_compiler else []
    if found.cut and not choices:
        return
    if not found.blocked and not found.cut:
        choices.append(1)
    for each in choices or [1]:
        for copied in found.copied:
            yield partial(_schedule, plan=WindowsPlan(found, each, copied, cpu))
    if max(lanes, cpu.min_lanes) < extent <= cpu.lanes() and _whole_rows(found, cpu):
        yield partial(_schedule, plan=WindowsPlan(found, extent, True, cpu))


def _whole_rows(found: Window, cpu: CpuModel) -> bool:
    """Whether rows of a padded copy are worth a vector whose lanes are no power of two: LLVM takes them in pieces.

    Left to itself it makes vectors across rows of products, whose elements are gathered one by one. Of larger windows
    and of pools it was seen to make better ones.
    """
    plain = found.stride == 1 and not (found.blocked or found.cut or found.weights or found.chooses)
    small = math.prod(found.stage.reduction) <= cpu.whole_row_window
    return plain and small and found.factors > 1 and bool(found.sources)


def _schedule(sch: Schedule, plan: WindowsPlan) -> None:
    stage, sources = plan.found.stage, plan.found.sources
    for name in sources[:-1] if plan.copied else sources:
        sch.compute_inline(sch.get_sblock(name))
    block = sch.get_sblock(stage.name)
    last = fold(sch, block)
    if last is not None and plan.found.cut:
        sch.set_scope(block, 0, "local")
        tile = sch.get_sblock(last)
    else:
        tile = sch.cache_write(block, 0, "local")
    nest = _tile(sch, block, plan) if plan.lanes > 1 else _rows(sch, block, plan)
    if last is not None and not plan.found.cut:
        sch.reverse_compute_inline(sch.get_sblock(last))
    sch.reverse_compute_at(tile, nest.tile, preserve_unit_loops=True)
    threads = fused(sch, nest.threads)
    sch.parallel(threads)
    if plan.copied:
        copy = sch.get_sblock(sources[-1])
        # A plane is not read right after it was written, in narrower pieces: loads would wait for the stores.
        sch.compute_at(copy, threads if plan.found.cut else nest.plane, preserve_unit_loops=True)
        _copy_loops(sch, copy, plan)
    if plan.found.weights:
        at = threads if plan.found.cut else nest.plane
        weights = sch.get_sblock(plan.found.weights)
        sch.compute_at(weights, at, preserve_unit_loops=True)
        _, rows, columns, *lane = sch.get_loops(weights)[-len(stage.spatial) + 1 :]
        sch.reorder(columns, *lane, rows)  # LLVM makes vectors of what shares a lane
        sch.unroll(rows)
    if math.prod(stage.reduction) <= plan.cpu.unrolled_window:
        for loop in nest.window:
            sch.unroll(loop)
    count = len(nest.inner)
    if count:
        unroll_and_vectorize(sch, nest.inner)
        *rows, columns = sch.get_loops(tile)[-count:]
        if not plan.found.cut:
            unroll_and_vectorize(sch, [*rows, columns])
        elif str(sch.get(tile).writes[0].source.dtype) != FLOAT32:  # LLVM makes vectors of float32
            unroll_and_vectorize(sch, [*rows, *in_vectors(sch, columns, plan.cpu.lanes())])
    init = sch.decompose_reduction(block, nest.window[0])
    if count:
        unroll_and_vectorize(sch, sch.get_loops(init)[-count:])


@dataclass(frozen=True)
class _Nest:
    """Loops of the reduction: of the threads, around a band of a plane, around a tile, of the window, of the tile."""

    threads: list[Any]
    plane: Any
    tile: Any
    window: list[Any]
    inner: list[Any]


def _tile(sch: Schedule, block: Any, plan: WindowsPlan) -> _Nest:
    """Rows, columns and lanes of a tile in registers, the window around them."""
    *planes, row, column, lane, window = _axes(sch, block, plan)
    vectors, lane = sch.split(lane, [None, plan.lanes], preserve_unit_iters=True)
    if column is None:
        column = vectors
    else:
        planes.append(vectors)
    p0, p1 = _planes(sch, planes)
    if plan.found.cut:
        # Whole planes and rows: a part of them would have bounds in each of its loops.
        factors = sch.sample_perfect_tile(row, 2, plan.cpu.window_rows)
        x0, x1 = sch.split(column, [1, None], preserve_unit_iters=True)
    else:
        factors = sch.sample_perfect_tile(row, 3, plan.cpu.window_rows)
        columns = sch.sample_perfect_tile(column, 2, plan.cpu.window_columns)
        x0, x1 = sch.split(column, columns, preserve_unit_iters=True)
    *bands, y0, y1 = sch.split(row, factors, preserve_unit_iters=True)
    sch.reorder(*p0, *bands, *p1, y0, x0, *window, y1, x1, lane)
    return _Nest([*p0, *bands], [*p0, *bands, *p1][-1], x0, window, [y1, x1, lane])


def _rows(sch: Schedule, block: Any, plan: WindowsPlan) -> _Nest:
    """One element after the other along a row: the compiler makes vectors of them, strided ones as well."""
    *planes, row, column, lane, window = _axes(sch, block, plan)
    p0, p1 = _planes(sch, planes)
    band, y0 = sch.split(row, sch.sample_perfect_tile(row, 2, int(sch.get(row).extent)), preserve_unit_iters=True)
    columns = [] if column is None else [column]
    sch.reorder(*p0, band, *p1, y0, *columns, lane, *window)
    return _Nest([*p0, band], [band, *p1][-1], lane, window, [])


def _axes(sch: Schedule, block: Any, plan: WindowsPlan) -> list[Any]:
    """Loops: of the planes, of rows, of columns (None where they are the contiguous ones), contiguous; the window's."""
    rank, loops = len(plan.found.stage.spatial), sch.get_loops(block)
    spatial, window = list(loops[:rank]), list(loops[rank:])
    if plan.found.blocked and rank > 2:
        if plan.found.whole:  # several blocks at a time: a sum alone would wait for itself
            *others, last, row, column, lane = spatial
            return [*others, row, last, column, lane, window]
        return [*spatial, window]
    return [*spatial[:-1], None, spatial[-1], window]


def _planes(sch: Schedule, loops: list[Any]) -> tuple[list[Any], list[Any]]:
    """Outside of a chunk, and inside."""
    if not loops:
        return [], []
    outer, inner = chunked(sch, loops)
    return outer, [inner]


def _copy_loops(sch: Schedule, block: Any, plan: WindowsPlan) -> None:
    """Channels of a block are copied in vectors; a plain row is left to the compiler, as padding cuts its ends off."""
    if plan.found.blocked and plan.lanes > 1:
        _, lane = sch.split(sch.get_loops(block)[-1], [None, plan.lanes], preserve_unit_iters=True)
        sch.vectorize(lane)
    elif plan.found.cut:
        loop = sch.get_loops(block)[-2]
        if sch.can_decompose_padding(block, loop):  # zeros first, and then rows without a test for each element
            sch.decompose_padding(block, loop)
