"""3×3 depthwise convolutions whose rows share 32-bit lanes, on an instruction for pairs or quads.

Two rows of the result are computed at a time: both are made of the same words, with weights that are shifted for the
second one. All words of codes are made first: inside of a loop TVM would make of each word the two rows alone that the
program reads, but the instruction reads four. Those of bits are made for a band of a plane, or for some plain planes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules.base import Rule, Variant
from workers.tvm_backend.design_space.rules.epilogue import fold, foldable
from workers.tvm_backend.design_space.rules.registers import in_vectors
from workers.tvm_backend.design_space.rules.stages import Stage, chunked, find, fused, unroll_and_vectorize
from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.codes import WEIGHTS
from workers.tvm_backend.dot.intrinsics import ROW_WORDS, RowDot
from workers.tvm_backend.dot.marks import MARK

WINDOW = (3, 3)
"""Rows and columns of the kernel."""
PLAIN = 4
"""Axes of a plain map."""


class DepthwiseWords(Rule):
    """Applies to 3×3 depthwise convolutions of words, on CPUs with an instruction for them.

    One sketch. Knobs: rows of a band and of a tile, columns of a tile. In plain maps a thread computes whole planes;
    knobs: planes of its chunk, rows of a tile.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = match(sch)
        dot = None if found is None else dot_of(found, cpu)
        if found is not None and dot is not None:
            yield partial(_schedule, plan=WordsPlan(found, dot, cpu))


@dataclass(frozen=True)
class Words:
    """A 3×3 depthwise convolution of words.

    Attributes:
        stage: the convolution.
        wide: the stages that it reads, which widen pixels and weights; inlined where an instruction takes words.
        copies: the stages before them, the last of which makes words.
        words: data type of what shares a lane.
    """

    stage: Stage
    wide: tuple[str, ...]
    copies: tuple[str, ...]
    words: str

    @property
    def plain(self) -> bool:
        """The map is plain."""
        return len(self.stage.spatial) == PLAIN


@dataclass(frozen=True)
class WordsPlan:
    """What is fixed in a sketch."""

    found: Words
    dot: RowDot
    cpu: CpuModel


def match(sch: Schedule) -> Words | None:
    """The workload as such a convolution and what is element by element around it; None for anything else."""
    stages = find(sch)
    reductions = [stage for stage in stages or () if stage.reduction]
    if not stages or len(reductions) != 1 or reductions[0].reduction != WINDOW:
        return None
    stage = reductions[0]
    before = stages[: stages.index(stage)]
    wide = [each for each in before if stage.name in each.consumers]
    makers = [each for each in before if any(name in each.consumers for name in (w.name for w in wide))]
    if len(wide) != 2 or len(makers) != 1 or not all(splits_words(each) for each in wide):
        return None
    if not foldable(sch, sch.get_sblock(stage.name)):
        return None
    copies = tuple(each.name for each in before if each not in wide)
    return Words(stage, tuple(each.name for each in wide), copies, str(makers[0].block.writes[0].source.dtype))


def applies(sch: Schedule, cpu: CpuModel) -> bool:
    """Whether the workload is such a convolution and the CPU has an instruction for it."""
    found = match(sch)
    return found is not None and dot_of(found, cpu) is not None


def dot_of(found: Words, cpu: CpuModel) -> RowDot | None:
    """The instruction that a CPU has for it; None where it has none, or rows or blocks that it does not fit."""
    rows, lanes = found.stage.spatial[2], found.stage.spatial[-1]
    fitting = (dot for dot in ROW_WORDS if dot.left == found.words and dot.plain == found.plain and rows % 2 == 0)
    filled = (dot for dot in fitting if (lanes % dot.lanes == 0 if dot.plain else lanes == dot.lanes))
    return next((dot for dot in filled if dot.runs_on(cpu)), None)


def splits_words(stage: Stage) -> bool:
    """Whether a stage reads one of those that share a lane, told by a remainder, or bytes of weights."""
    loads = stage.loads()
    by_rest = len(loads) == 1 and type(loads[0].indices[-1]).__name__ == "FloorMod"
    return by_rest or (len(loads) == 1 and str(loads[0].source.dtype) == WEIGHTS)


def _schedule(sch: Schedule, plan: WordsPlan) -> None:
    found, block = plan.found, sch.get_sblock(plan.found.stage.name)
    for name in found.wide:
        sch.compute_inline(sch.get_sblock(name))
    last = fold(sch, block)
    by_rows = last is not None and found.plain  # rows may be cut there
    if by_rows:
        sch.set_scope(block, 0, "local")
        tile = sch.get_sblock(last)
    else:
        tile = sch.cache_write(block, 0, "local")
        if last is not None:
            sch.reverse_compute_inline(sch.get_sblock(last))
    nest = _tile(sch, block, plan)
    sch.reverse_compute_at(tile, nest.tile, preserve_unit_loops=True)
    threads = fused(sch, nest.threads)
    sch.parallel(threads)
    if found.plain:
        _copy_planes(sch, plan, threads)
    else:
        _copy_rows(sch, plan, nest.plane)
    for loop in nest.unrolled:
        sch.unroll(loop)
    *rows, columns = sch.get_loops(tile)[-3:]
    unroll_and_vectorize(sch, [*rows, *(in_vectors(sch, columns, plan.dot.lanes) if by_rows else [columns])])
    init = sch.decompose_reduction(block, nest.unrolled[0])
    *outer, lane, row = sch.get_loops(init)[-4:]
    sch.reorder(row, lane)
    unroll_and_vectorize(sch, [*outer, row, lane])
    sch.annotate(nest.lane, MARK, plan.dot.name)


@dataclass(frozen=True)
class _Nest:
    """Loops of the convolution: of the threads, around a band of a plane, around a tile, unrolled ones, lanes."""

    threads: list[Any]
    plane: Any
    tile: Any
    unrolled: list[Any]
    lane: Any


def _tile(sch: Schedule, block: Any, plan: WordsPlan) -> _Nest:
    n, o, y, x, *lanes, ky, kx = sch.get_loops(block)
    most = max(1, plan.cpu.window_rows // 2)
    pairs, row = sch.split(y, [None, 2], preserve_unit_iters=True)
    p0, p1 = chunked(sch, [n, o])
    if plan.found.plain:
        y0, y1 = sch.split(pairs, sch.sample_perfect_tile(pairs, 2, most), preserve_unit_iters=True)
        x0, x1, lane = sch.split(x, [1, None, plan.dot.lanes], preserve_unit_iters=True)
        bands = []
    else:
        (lane,) = lanes
        *bands, y0, y1 = sch.split(pairs, sch.sample_perfect_tile(pairs, 3, most), preserve_unit_iters=True)
        x0, x1 = sch.split(x, sch.sample_perfect_tile(x, 2, plan.cpu.window_columns), preserve_unit_iters=True)
    outside, inside = ([kx], [ky]) if plan.dot.columns == 1 else ([], [ky, kx])
    sch.reorder(*p0, *bands, p1, y0, x0, y1, x1, *outside, lane, row, *inside)
    return _Nest([*p0, *bands], p1, x0, [y1, x1, *outside], lane)


def _copy_rows(sch: Schedule, plan: WordsPlan, plane: Any) -> None:
    """LLVM makes vectors of rows that are interleaved; of codes only where a copy of them has the border already."""
    *padded, words = (sch.get_sblock(name) for name in plan.found.copies)
    if plan.found.words == BITS:
        for stage in padded:
            sch.compute_inline(stage)
        sch.compute_at(words, plane, preserve_unit_loops=True)
    else:
        rows = sch.fuse(*sch.get_loops(words)[:3])
        sch.parallel(rows)
        for stage in padded:
            sch.compute_at(stage, rows, preserve_unit_loops=True)
            sch.vectorize(sch.get_loops(stage)[-1])
    sch.unroll(sch.get_loops(words)[-1])


def _copy_planes(sch: Schedule, plan: WordsPlan, threads: Any) -> None:
    """Planes get zeros around them, and then rows without a test for each element."""
    *padded, words = (sch.get_sblock(name) for name in plan.found.copies)
    if plan.found.words == BITS:
        sch.compute_at(words, threads, preserve_unit_loops=True)
        at = threads
    else:
        at = sch.fuse(*sch.get_loops(words)[:2])
        sch.parallel(at)
    for stage in padded:
        sch.compute_at(stage, at, preserve_unit_loops=True)
        row = sch.get_loops(stage)[-2]
        if sch.can_decompose_padding(stage, row):
            sch.decompose_padding(stage, row)
    sch.unroll(sch.get_loops(words)[-1])
