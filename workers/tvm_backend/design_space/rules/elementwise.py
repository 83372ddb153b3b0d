"""Programs without a reduction: activations, sums of tensors, copies into another layout, concatenations.

All of it becomes one loop nest over the output. The axes that every input runs through as the output does are one
vectorised loop; a copy that transposes is tiled on both sides, so that each cache line is used up while it is near. A
concatenation is code of its own for each piece of the output, so that none of its elements asks where it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx
from tvm.ir import Range
from tvm.s_tir import Schedule
from tvm.sym import Analyzer

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules.base import Rule, Variant
from workers.tvm_backend.design_space.rules.pieces import Pieces, pieces
from workers.tvm_backend.design_space.rules.stages import (
    Stage,
    find,
    fused,
    inline,
    plain_size,
    size,
    unroll_and_vectorize,
    variables_of,
    widest,
)


class Elementwise(Rule):
    """Applies where every stage is spatial.

    Sketches: one, two or four vectors at a time; of a concatenation of few pieces, one; of a transposing copy, vectors
    along the output's or along the input's contiguous axis. Knobs: chunks of the loops for the threads; one chunk is a
    program without threads; of a transposing copy the length of a tile.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        stages = find(sch)
        if stages is None or any(stage.reduction for stage in stages) or not stages[-1].spatial:
            return
        inlined = _inlined(stages, cpu)
        inline(sch, inlined)
        stages = find(sch)
        if stages is None:
            return
        last, most = stages[-1], cpu.lanes() if all(stage.in_lanes for stage in stages) else 1
        joined = _in_pieces(stages, inlined, most, cpu)
        if joined is not None:
            yield partial(_schedule_pieces, plan=joined)
            return
        length = _common(stages, cpu)
        if length == 0:
            yield from _transposing(last, inlined, most, cpu)
            return
        extent = math.prod(last.spatial[-length:])
        lanes = widest(extent, most)
        lanes = lanes if lanes >= cpu.min_lanes else 1
        for registers in cpu.row_registers:
            if registers == 1 or (lanes > 1 and extent % (registers * lanes) == 0):
                yield partial(_schedule, plan=ElementwisePlan(inlined, length, lanes, registers))


@dataclass(frozen=True)
class ElementwisePlan:
    """What is fixed in a sketch.

    Attributes:
        inlined: stages that go into their readers.
        length: trailing axes of the output that are one loop.
        lanes: lanes of a vector; 1 leaves the loop to the compiler.
        registers: vectors at a time.
    """

    inlined: tuple[str, ...]
    length: int
    lanes: int
    registers: int


@dataclass(frozen=True)
class PiecesPlan:
    """What is fixed in a sketch of a concatenation.

    Attributes:
        cut: pieces of the output; each is code of its own.
        row: as an ``ElementwisePlan`` without the axis that is cut, and what is outside of it.
        across: threads share what is in a piece, because all behind the axis that is cut is one row.
    """

    cut: Pieces
    row: ElementwisePlan
    across: bool


@dataclass(frozen=True)
class Tile:
    """What is fixed in a sketch of a transposing copy.

    Attributes:
        inlined: stages that go into their readers.
        vector, other: axes of the output: the vectorised one, and the one that a tile is long in.
        lanes: lanes of a vector; 1 leaves the loop to the compiler.
    """

    inlined: tuple[str, ...]
    vector: int
    other: int
    lanes: int


def _inlined(stages: list[Stage], cpu: CpuModel) -> tuple[str, ...]:
    """Names of the stages that go into their readers: all, but those that would make a large expression larger.

    Where the last axis has no vectors, indices and conditions do not count: inlined, all axes behind a cut may be one
    run, and a compiler computes an address once.
    """
    measure = size if _has_vectors(stages[-1], cpu) else plain_size
    sizes: dict[str, int] = {}
    kept = set()
    for stage in stages:
        written = {other.name: other.block.writes[0].source for other in stages}
        read = [name for load in stage.loads() for name, made in written.items() if load.source.same_as(made)]
        sizes[stage.name] = measure(stage.block.body.value) + sum(sizes[name] for name in read if name not in kept)
        uses = sum(load.source.same_as(written[stage.name]) for other in stages for load in other.loads())
        if uses > 1 and sizes[stage.name] > cpu.copied_nodes:
            kept.add(stage.name)
    return tuple(stage.name for stage in stages if stage.consumers and stage.name not in kept)


def _common(stages: list[Stage], cpu: CpuModel) -> int:
    """How many trailing axes are one loop. What is kept is computed for whole vectors of the last axis, whose place is
    known: some vectors of fused loops could cross the end of one of them."""
    length = common_axes(stages[-1])
    return min(length, 1) if len(stages) > 1 and _has_vectors(stages[-1], cpu) else length


def _has_vectors(stage: Stage, cpu: CpuModel) -> bool:
    return widest(stage.spatial[-1], cpu.lanes()) >= cpu.min_lanes


def _in_pieces(stages: list[Stage], inlined: tuple[str, ...], most: int, cpu: CpuModel) -> PiecesPlan | None:
    """The plan of a concatenation; None for anything else, and where rows are not read as they are written."""
    cut, last = pieces(stages, cpu.max_pieces), stages[-1]
    if cut is None or cut.axis == len(last.spatial) - 1:
        return None
    length = min(*(common_axes(stage) for stage in stages), len(last.spatial) - cut.axis - 1)
    if length and len(stages) > 1:
        length = 1
    extent = math.prod(last.spatial[len(last.spatial) - length :])
    lanes = widest(extent, most)
    lanes = lanes if lanes >= cpu.min_lanes else 1
    registers = cpu.paired_vectors if lanes > 1 and extent % (cpu.paired_vectors * lanes) == 0 else 1
    across = length == len(last.spatial) - cut.axis - 1 and last.spatial[cut.axis] // cut.count >= 2 * cpu.cores
    return PiecesPlan(cut, ElementwisePlan(inlined, length, lanes, registers), across) if length else None


def common_axes(stage: Stage) -> int:
    """How many of its trailing axes every load runs through as the output does, or does not depend on at all."""
    value = stage.block.body.value
    inside = [variable for load in stage.loads() for index in load.indices for variable in variables_of(index)]
    for length in range(len(stage.spatial), 0, -1):
        axes = set(range(len(stage.spatial) - length, len(stage.spatial)))
        own = [stage.variables[at] for at in axes if stage.spatial[at] > 1]
        outside = _count(own, variables_of(value)) - _count(own, inside)
        if outside == 0 and all(_runs_along(stage, load, length, axes) for load in stage.loads()):
            return length
    return 0


def _count(own: list[Any], found: list[Any]) -> int:
    return sum(any(variable.same_as(each) for each in own) for variable in found)


def _runs_along(stage: Stage, load: Any, length: int, axes: set[int]) -> bool:
    used = [stage.axes_of(index) & axes for index in load.indices]
    return not any(used) or _is_indexed_so(stage, load, length, used) or _is_one_run(stage, load, length)


def _is_indexed_so(stage: Stage, load: Any, length: int, used: list[set[int]]) -> bool:
    if len(used) < length or any(used[:-length]):
        return False
    shape = [int(extent) for extent in load.source.shape[-length:]]
    plain = [
        index.same_as(variable) or extent == 1
        for index, variable, extent in zip(
            load.indices[-length:], stage.variables[-length:], stage.spatial[-length:], strict=True
        )
    ]
    return all(plain) and shape == list(stage.spatial[-length:])


def _is_one_run(stage: Stage, load: Any, length: int) -> bool:
    """Whether what a load reads lies as the output's trailing axes do, however it is indexed, as after a reshape."""
    analyzer, flat, run, step = Analyzer(), tirx.const(0, "int64"), tirx.const(0, "int64"), 1
    for variable, extent in zip(stage.variables, stage.spatial, strict=True):
        analyzer.bind(variable, Range(0, extent))
    for index, extent in zip(load.indices, load.source.shape, strict=True):
        flat = flat * extent + index
    mine = list(stage.variables[-length:])
    for variable, extent in reversed(list(zip(mine, stage.spatial[-length:], strict=True))):
        run, step = run + variable * step, step * extent
    return _count(mine, variables_of(analyzer.simplify(flat - run))) == 0


def _transposing(stage: Stage, inlined: tuple[str, ...], most: int, cpu: CpuModel) -> Iterator[Variant]:
    last = len(stage.spatial) - 1
    ends = [stage.axes_of(load.indices[-1]) - {last} for load in stage.loads() if len(load.indices)]
    others = sorted(set().union(*ends)) if ends else []
    pairs = [(last, other) for other in others[-1:]] + [(other, last) for other in others[-1:]]
    found = [Tile(inlined, vector, other, widest(stage.spatial[vector], most)) for vector, other in pairs]
    wide = [tile for tile in found if tile.lanes >= cpu.min_lanes]
    for tile in wide or [Tile(inlined, each.vector, each.other, 1) for each in found]:
        yield partial(_schedule_tile, plan=tile)
    if not pairs:
        yield partial(_schedule, plan=ElementwisePlan(inlined, 1, 1, 1))


def _chunks(sch: Schedule, loop: Any) -> list[Any]:
    factors = sch.sample_perfect_tile(loop, 2, int(sch.get(loop).extent))
    return list(sch.split(loop, factors, preserve_unit_iters=True))


def _schedule(sch: Schedule, plan: ElementwisePlan) -> None:
    inline(sch, plan.inlined)
    *kept, last = sch.get_child_blocks(sch.get_sblock("root"))
    loops = sch.get_loops(last)
    steps, *vectors = _vectors(sch, loops[-plan.length :], plan)
    if kept and plan.length == 1:
        _schedule_rows(sch, kept, [*loops[:-1], steps], vectors, plan.lanes)
        return
    parts = [_chunks(sch, loop) for loop in (*_rows(sch, loops[: -plan.length]), steps)]
    sch.reorder(*(part[0] for part in parts), *(part[1] for part in parts), *vectors)
    sch.parallel(fused(sch, [part[0] for part in parts]))
    _keep(sch, kept, parts[-1][1])
    unroll_and_vectorize(sch, vectors)


def _schedule_pieces(sch: Schedule, plan: PiecesPlan) -> None:
    """A thread goes through some rows of every piece, or through a part of each where a row is all that there is."""
    inline(sch, plan.row.inlined)
    *kept, last = sch.get_child_blocks(sch.get_sblock("root"))
    axis, loops = plan.cut.axis, sch.get_loops(last)
    piece, part = sch.split(loops[axis], [plan.cut.count, None], preserve_unit_iters=True)
    steps, *vectors = _vectors(sch, loops[-plan.row.length :], plan.row)
    rows = [*loops[axis + 1 : -plan.row.length], steps]
    if plan.across:
        chunk, part = _chunks(sch, part)
        _place(sch, kept, [*loops[:axis], chunk], [piece], [part, *rows], vectors, plan.row.lanes)
    else:
        _schedule_rows(sch, kept, rows, vectors, plan.row.lanes, loops[:axis], [piece, part])
    sch.unroll(piece)


def _schedule_rows(
    sch: Schedule,
    kept: list[Any],
    loops: list[Any],
    vectors: list[Any],
    lanes: int,
    outside: Sequence[Any] = (),
    inside: Sequence[Any] = (),
) -> None:
    """The longest of some loops in chunks, with threads outside of a chunk. No loops are fused inside of it, so that
    what is kept is one vector after the other.

    Args:
        outside: loops of the threads around them.
        inside: loops of a thread around a chunk.
    """
    longest = max(range(len(loops)), key=lambda at: int(sch.get(loops[at]).extent))
    chunk, steps = _chunks(sch, loops[longest])
    threads, rows = [*outside, *loops[:longest], chunk], [steps, *loops[longest + 1 :]]
    _place(sch, kept, threads, inside, rows, vectors, lanes)


def _place(
    sch: Schedule,
    kept: list[Any],
    threads: list[Any],
    inside: Sequence[Any],
    rows: list[Any],
    vectors: list[Any],
    lanes: int,
) -> None:
    """Loops in this order: what threads share, what is around a thread's rows, these, and the vectors of a row."""
    sch.reorder(*threads, *inside, *rows, *vectors)
    sch.parallel(fused(sch, threads))
    _keep(sch, kept, rows[-1], lanes)
    unroll_and_vectorize(sch, vectors)


def _vectors(sch: Schedule, loops: list[Any], plan: ElementwisePlan) -> list[Any]:
    """Some loops as one: steps, vectors at a time, and lanes."""
    return list(sch.split(fused(sch, loops), [None, plan.registers, plan.lanes], preserve_unit_iters=True))


def _rows(sch: Schedule, loops: list[Any]) -> list[Any]:
    return [fused(sch, loops)] if loops else []


def _keep(sch: Schedule, kept: list[Any], loop: Any, lanes: int = 1) -> None:
    """Stages that are not inlined are computed for the vectors at hand, in vectors of ``lanes``."""
    for block in reversed(kept):
        sch.set_scope(block, 0, "local")
        sch.compute_at(block, loop, preserve_unit_loops=True)
        if lanes > 1:
            *_, inner = sch.get_loops(block)
            unroll_and_vectorize(sch, sch.split(inner, [None, lanes], preserve_unit_iters=True))


def _schedule_tile(sch: Schedule, plan: Tile) -> None:
    inline(sch, plan.inlined)
    *kept, last = sch.get_child_blocks(sch.get_sblock("root"))
    loops = sch.get_loops(last)
    rest = [loop for at, loop in enumerate(loops) if at not in (plan.vector, plan.other)]
    vectors, lane = sch.split(loops[plan.vector], [None, plan.lanes], preserve_unit_iters=True)
    long, step = _chunks(sch, loops[plan.other])
    sch.reorder(*rest, long, vectors, step, lane)
    sch.parallel(fused(sch, [*rest, long]))
    _keep(sch, kept, step)
    unroll_and_vectorize(sch, [lane])
