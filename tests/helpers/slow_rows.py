"""Decision rows of one candidate at a time, from its replayed schedule: loops are read, and everything is counted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.model import Costs
from tunesmith.analysis.nest import Access, Block, Buffer, Extent, Loop, Nest, Product
from tunesmith.analysis.rows import COLUMNS, LEVELS, LOOPS, Subject, decision_rows, main_block
from tunesmith.types import Decision
from workers.tvm_backend.design_space.nests import program as programs
from workers.tvm_backend.design_space.replay import Replayer
from workers.tvm_backend.design_space.sketch import SketchBody


def read_nest(nest: Nest, replayer: Replayer, body: SketchBody, decisions: tuple[Decision, ...]) -> Nest | None:
    """The nest with the extents of one candidate's schedule, each a number; None where locations clamp differently."""
    program = programs.read(replayer.apply(body, decisions))
    if [len(place.loops) for place in program.places] != [len(block.loops) for block in nest.blocks]:
        return None
    blocks = tuple(
        replace(block, loops=tuple(_fixed(*each) for each in zip(block.loops, place.loops, strict=True)))
        for block, place in zip(nest.blocks, program.places, strict=True)
    )
    marks = nest.marks and replace(nest.marks, unroll=Product(_unrolled(program)))
    return Nest(blocks, nest.buffers, (), marks)


def _fixed(loop: Loop, real: programs.RealLoop) -> Loop:
    return replace(loop, extent=Extent.of(Product(real.extent)))


def _unrolled(program: programs.Program) -> int:
    notes = program.notes
    return max(int(notes.get(f"meta_schedule.unroll_{how}", 0)) for how in ("explicit", "implicit"))


def expected(nest: Nest, subject: Subject, cpu: CpuModel) -> dict[str, float]:
    """Columns of a candidate whose nest is plain numbers; none of its decisions."""
    costs = Costs(nest, (), np.zeros((1, 0), dtype=np.int64), cpu)
    row = decision_rows(costs, replace(subject, knobs=()))[0]
    named = {name: float(value) for name, value in zip(COLUMNS, row, strict=True)}
    return named | _counted(nest, costs, cpu)


def _counted(nest: Nest, costs: Costs, cpu: CpuModel) -> dict[str, float]:
    """Extents, tasks, vectors and traffic of the main block, by hand."""
    main = main_block(nest)
    run, shape = costs.parts[main].run, costs.parts[main].shape
    block, extents = shape.block, [int(each) for each in shape.extents[:, 0]]
    parallel, vector = run.parallel[:, 0].tolist(), run.vector[:, 0].tolist()
    found = {f"loop.{at}": _log(each) for at, each in enumerate(extents[::-1][:LOOPS])}
    tasks = math.prod(each for each, mine in zip(extents, parallel, strict=True) if mine)
    found["parallel.tasks"] = _log(tasks)
    found["parallel.grain"] = _log(math.prod(extents) / tasks)
    found["vector.length"] = _log(math.prod(each for each, mine in zip(extents, vector, strict=True) if mine))
    task = [(loop, each) for loop, each, mine in zip(block.loops, extents, parallel, strict=True) if not mine]
    found["task.bytes"] = _log(_all_touched(nest, block, task, cpu, local=True))
    for level in range(LEVELS):
        moved = _moved(nest, block, extents, cpu, cpu.cache_share * cpu.caches[level].size)
        found[f"cache{level}.moved"] = _log(moved)
    return found


def _moved(nest: Nest, block: Block, extents: list[int], cpu: CpuModel, size: float) -> float:
    """From the outermost place whose footprints fit: each access as often as loops outside of its last mover run."""
    loops = list(zip(block.loops, extents, strict=True))
    for place in range(len(extents) + 1):
        if place == len(extents) or _held(nest, block, loops, place, cpu) <= size:
            break
    total = 0.0
    for number, access in enumerate((block.write, *block.reads)):
        if nest.buffers[access.buffer].local:
            continue
        axes = {axis for index in access.indices for axis, _ in index.strides}
        movers = [at for at in range(place) if axes & set(block.loops[at].axes) and extents[at] > 1]
        times = math.prod(extents[: movers[-1] + 1]) if movers and place > _around(nest, block, access) else 1
        total += (1 + (number == 0)) * times * _held_of(nest, block, access, loops, place, cpu)
    return total


def _around(nest: Nest, block: Block, access: Access) -> int:
    """How many loops are around everything that uses a buffer which is written and read."""
    users = [b for b in nest.blocks if access.buffer in [each.buffer for each in (b.write, *b.reads)]]
    between = {access.buffer in [each.buffer for each in b.reads] for b in users} == {True, False}
    written = any(b.write.buffer == access.buffer for b in users)
    same = [loop for loop in block.loops if all(loop.number in {each.number for each in b.loops} for b in users)]
    return len(same) if between and written else 0


def _held(nest: Nest, block: Block, loops: list[tuple[Loop, int]], place: int, cpu: CpuModel) -> float:
    accesses = [each for each in (block.write, *block.reads) if not nest.buffers[each.buffer].local]
    return sum(_held_of(nest, block, each, loops, place, cpu) for each in accesses)


def _held_of(
    nest: Nest, block: Block, access: Access, loops: list[tuple[Loop, int]], place: int, cpu: CpuModel
) -> float:
    inside = loops[max(place, _around(nest, block, access)) :]
    return _touched(nest.buffers[access.buffer], access, _ranges(block, inside), cpu)


def _all_touched(nest: Nest, block: Block, inside: list[tuple[Loop, int]], cpu: CpuModel, local: bool = False) -> float:
    ranges = _ranges(block, inside)
    kept = [each for each in (block.write, *block.reads) if local or not nest.buffers[each.buffer].local]
    return sum(_touched(nest.buffers[each.buffer], each, ranges, cpu) for each in kept)


def _ranges(block: Block, inside: list[tuple[Loop, int]]) -> list[float]:
    out = [1.0] * len(block.axes)
    for loop, steps in inside:
        for axis in loop.axes:
            out[axis] *= steps
    return [min(each, size or math.inf) for each, size in zip(out, block.axes, strict=True)]


def _touched(buffer: Buffer, access: Access, ranges: list[float], cpu: CpuModel) -> float:
    """Bytes of the lines: rows that are whole join the next dimension."""
    run, rows, whole = 1.0, 1.0, True
    for index, size in reversed(list(zip(access.indices, buffer.shape, strict=True))):
        if size == 1:
            continue
        distance = index.width + sum(abs(stride) * (ranges[axis] - 1) for axis, stride in index.strides)
        count = math.prod([index.width, *(ranges[axis] for axis, _ in index.strides)])
        distance = math.ceil(distance / index.divide)
        distance = min(distance, index.modulo or math.inf, size or math.inf)
        if whole:
            run *= distance
        else:
            rows *= min(count, distance)
        whole = whole and distance >= (size or math.inf)
    return rows * math.ceil(run * buffer.element_bytes / cpu.line_bytes) * cpu.line_bytes


def _log(value: float) -> float:
    return math.log2(value)
