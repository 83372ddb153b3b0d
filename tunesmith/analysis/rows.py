"""Decision rows: what a learned ranker sees of a candidate, from its decisions alone.

A row has the same columns for every workload and sketch. It describes the workload's main block, the device, the
sketch's primitives, the decisions, how the main block runs, and the terms of the static model. Nothing is replayed or
lowered: a batch of one nest costs microseconds a candidate. What is not known is NaN.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.model import Costs, Part
from tunesmith.analysis.nest import Block, Nest
from tunesmith.analysis.shape import Shape
from tunesmith.names import BF16, DECISIONS, INT8
from tunesmith.space.base import Bools, Floats, Ints
from tunesmith.space.knobs import Categorical, ComputeLocation, Knob, PerfectTile

Floats32 = NDArray[np.float32]
Columns = Iterator[tuple[str, ArrayLike]]

VERSION = DECISIONS
"""Version of the columns: rows of another one mean something else."""

AXES, LOOPS, TILES, TILE_PARTS, CATEGORIES, PLACES, LEVELS = 7, 12, 7, 4, 3, 2, 3
"""Axes and inner loops of the main block, tiles, their parts, other decisions and cache levels that have columns."""
PRIMITIVES = (
    "Annotate",
    "CacheRead",
    "CacheWrite",
    "ComputeAt",
    "ComputeInline",
    "DecomposeReduction",
    "Fuse",
    "Parallel",
    "RFactor",
    "Reorder",
    "ReverseComputeAt",
    "SetScope",
    "Split",
    "TransformLayout",
    "Unroll",
    "Vectorize",
)
FIGURES = (
    "cores",
    "vector_bytes",
    "registers",
    "peak_flops",
    "bandwidth",
    "bf16_dot",
    "i8_dot",
    "i16_dot",
    "bf16_tiles",
    "i8_tiles",
)
"""Fields of the CPU model that are columns."""

NARROW = (BF16, INT8)
"""Precisions that have a column; float32 has none of them."""
FAMILY, STATIC, BLOCKS = "family", "static.seconds", "work.blocks"
"""Names of columns that have a part of their own: the family's number, the static model's estimate, and the number of
blocks."""
FAMILIES = 1 << 24
"""Whole numbers that float32 holds exactly."""

COLUMNS = (
    FAMILY,
    *(f"work.{name}" for name in ("operations", "bytes", "bytes_per_operation", "blocks", "buffers")),
    *(f"main.{name}" for name in ("spatial_axes", "summed_axes", "spatial", "summed", "work", "calls", "conditions")),
    *(f"main.{name}" for name in ("update", "dotted", "in_tiles", "written_bytes", "read_bytes", "reads")),
    *(f"axis.{at}" for at in range(AXES)),
    *(f"device.{name}" for name in (*FIGURES, "lanes", "balance")),
    *(f"device.cache{level}" for level in range(LEVELS)),
    *(f"precision.{name}" for name in NARROW),
    *(f"primitive.{name}" for name in PRIMITIVES),
    *(f"tile.{at}.{part}" for at in range(TILES) for part in range(TILE_PARTS)),
    *(f"category.{at}" for at in range(CATEGORIES)),
    *(f"place.{at}" for at in range(PLACES)),
    *(f"loop.{at}" for at in range(LOOPS)),
    *(f"parallel.{name}" for name in ("tasks", "uneven", "grain", "starts", "seams")),
    *(f"vector.{name}" for name in ("length", "filled", "compiled", "memory")),
    *(f"kernel.{name}" for name in ("times", "operations", "accumulators", "needed", "loads", "stores", "code")),
    *(f"kernel.{name}" for name in ("cycles", "bytes", "unrolled")),
    "task.bytes",
    *(f"cache{level}.{name}" for level in range(LEVELS) for name in ("task", "moved", "per_operation")),
    STATIC,
    *(f"static.{name}" for name in ("main", "compute", "forks", "seams", "feasible", "handicap")),
    *(f"static.transfer{level}" for level in range(LEVELS)),
)
PLACE = {name: at for at, name in enumerate(COLUMNS)}


@dataclass(frozen=True)
class Subject:
    """What candidates of one sketch have in common.

    Attributes:
        family: name of the workload's family.
        precision: precision of the job.
        knobs: the sketch's knobs.
        primitives: how often the sketch's trace has each kind of instruction.
        handicap: what the static model's estimates are multiplied by.
    """

    family: str
    precision: str
    knobs: tuple[Knob, ...]
    primitives: Mapping[str, int]
    handicap: float = 1.0


def family_number(name: str) -> int:
    """A number for a family, the same everywhere and for ever."""
    return zlib.crc32(name.encode()) % FAMILIES


def decision_rows(costs: Costs, subject: Subject) -> Floats32:
    """The rows of a batch of candidates of one nest, float32 [n, columns]."""
    nest, choice = costs.nest, costs.choice
    out, main = unknown_rows(subject, costs.cpu, choice), costs.parts[main_block(nest)]
    _fill(out, _tables(nest, subject.knobs, choice))
    _fill(out, _work(nest, main.shape.block, costs.resident))
    _fill(out, _loops(main, costs.cpu))
    _fill(out, _kernel(main))
    _fill(out, _footprints(main, costs.cpu))
    _fill(out, _static(costs, main, subject.handicap))
    return out


def unknown_rows(subject: Subject, cpu: CpuModel, choice: Ints) -> Floats32:
    """The rows of candidates whose nest is not understood: device, sketch and decisions alone."""
    out = np.full((len(choice), len(COLUMNS)), np.nan, dtype=np.float32)
    out[:, PLACE[FAMILY]] = family_number(subject.family)
    _fill(out, _device(cpu))
    _fill(out, ((f"precision.{name}", name == subject.precision) for name in NARROW))
    _fill(out, ((f"primitive.{name}", subject.primitives.get(name, 0)) for name in PRIMITIVES))
    _fill(out, _decisions(subject.knobs, choice))
    return out


def main_block(nest: Nest) -> int:
    """The block with most arithmetic; the first of several."""
    return max(range(len(nest.blocks)), key=lambda at: (_operations(nest.blocks[at]), -at))


def _fill(out: Floats32, columns: Columns) -> None:
    for name, values in columns:
        out[:, PLACE[name]] = values


def _log(values: ArrayLike) -> Floats32:
    """Base-two logarithms; NaN for what is not positive."""
    given = np.asarray(values, dtype=np.float32)
    out = np.full_like(given, np.nan)
    np.log2(given, out=out, where=given > 0)
    return out


def _log1(values: ArrayLike) -> Floats32:
    """Base-two logarithms of one more, for what may be zero."""
    out: Floats32 = np.log2(np.asarray(values, dtype=np.float32) + np.float32(1.0))
    return out


def _device(cpu: CpuModel) -> Columns:
    for name in FIGURES:
        value = getattr(cpu, name)
        yield f"device.{name}", value if isinstance(value, bool) else _log(value)
    yield "device.balance", _log(cpu.peak_flops / cpu.bandwidth)
    for level, cache in enumerate(cpu.caches[:LEVELS]):
        yield f"device.cache{level}", _log(cache.size)


def _kind(knob: Knob) -> str:
    """The kind of a knob, or of the one whose choices it has."""
    return str(getattr(knob, "base", knob).kind)


def _numbered(knobs: Sequence[Knob]) -> Iterator[tuple[int, Knob, str, int]]:
    """Place, knob, kind, and number among those of its kind."""
    seen: dict[str, int] = {}
    for at, knob in enumerate(knobs):
        kind = _kind(knob)
        yield at, knob, kind, seen.get(kind, 0)
        seen[kind] = seen.get(kind, 0) + 1


def _decisions(knobs: Sequence[Knob], choice: Ints) -> Columns:
    """Tiles, places, and the numbers of other choices."""
    for at, knob, kind, number in _numbered(knobs):
        if kind == PerfectTile.kind and number < TILES:
            factors = _log(knob.values(choice[:, at]))
            for part in range(min(TILE_PARTS, factors.shape[1])):
                yield f"tile.{number}.{part}", factors[:, part]
        elif kind == ComputeLocation.kind and number < PLACES:
            yield f"place.{number}", knob.values(choice[:, at])[:, 0]
        elif kind == Categorical.kind and number < CATEGORIES:
            yield f"category.{number}", _log1(knob.values(choice[:, at])[:, 0])


def _tables(nest: Nest, knobs: Sequence[Knob], choice: Ints) -> Columns:
    """What the categories stand for."""
    for at, knob, kind, number in _numbered(knobs):
        table = nest.tables[at] if at < len(nest.tables) else ()
        if kind == Categorical.kind and table and number < CATEGORIES:
            yield f"category.{number}", _log1(np.array(table)[knob.values(choice[:, at])[:, 0]])


def _work(nest: Nest, block: Block, resident: float) -> Columns:
    """The main block, whatever the decisions."""
    operations, summed = _operations(block), {axis for loop in block.loops if loop.reduction for axis in loop.axes}
    sizes = [max(1, size) for size in block.axes]
    spatial = [size for axis, size in enumerate(sizes) if axis not in summed]
    elements = [nest.buffers[access.buffer].element_bytes for access in block.reads]
    yield "work.operations", _log(operations)
    yield "work.bytes", _log(resident)
    yield "work.bytes_per_operation", _log(resident / max(operations, 1.0))
    yield BLOCKS, len(nest.blocks)
    yield "work.buffers", len(nest.buffers)
    yield "main.spatial_axes", len(spatial)
    yield "main.summed_axes", len(summed)
    yield "main.spatial", _log(float(np.prod(spatial, dtype=np.float64)))
    yield "main.summed", _log(float(np.prod([sizes[axis] for axis in summed], dtype=np.float64)))
    yield "main.work", block.operations
    yield "main.calls", block.calls
    yield "main.conditions", len(block.conditions)
    yield "main.update", block.update
    yield "main.dotted", block.dotted
    yield "main.in_tiles", block.in_tiles
    yield "main.written_bytes", nest.buffers[block.write.buffer].element_bytes
    yield "main.read_bytes", min(elements, default=np.nan)
    yield "main.reads", len(elements)
    for axis, size in enumerate(block.axes[:AXES]):
        yield f"axis.{axis}", _log(size)


def _operations(block: Block) -> float:
    """Arithmetic of a block, by what is known of its axes; a copy counts half a step."""
    steps = float(np.prod([size or 1 for size in block.axes], dtype=np.float64))
    return steps * max(0.5, block.operations + block.calls)


def _loops(part: Part, cpu: CpuModel) -> Columns:
    """Extents from the innermost loop outwards, and how they run."""
    shape, run = part.shape, part.run
    lanes = cpu.lanes(shape.buffers[shape.block.write.buffer].element_bytes)
    extents = _log(shape.extents[::-1][:LOOPS])
    for at, row in enumerate(extents):
        yield f"loop.{at}", row
    length = np.where(run.vector, shape.extents, 1.0).prod(axis=0)
    yield "device.lanes", lanes
    yield "parallel.tasks", _log(part.tasks)
    yield "parallel.uneven", np.ceil(part.tasks / cpu.cores) * cpu.cores / part.tasks
    yield "parallel.grain", _log(shape.iterations / part.tasks)
    yield "parallel.starts", _log1(part.forks / cpu.fork_seconds)
    yield "parallel.seams", _log1(part.seams / cpu.seam_seconds)
    yield "vector.length", _log(length)
    yield "vector.filled", length / (np.ceil(length / lanes) * lanes)
    yield "vector.compiled", run.compiled
    yield "vector.memory", run.memory
    yield "kernel.unrolled", _log(np.where(run.kernel & ~run.vector, shape.extents, 1.0).prod(axis=0))


def _kernel(part: Part) -> Columns:
    """The innermost straight code; loads and stores for each of its instructions."""
    inner, operations = part.inner, np.maximum(part.inner.operations, 1.0)
    yield "kernel.times", _log(inner.times)
    yield "kernel.operations", _log(inner.operations)
    yield "kernel.accumulators", _log1(inner.accumulators)
    yield "kernel.needed", _log1(inner.needed)
    yield "kernel.loads", inner.loads / operations
    yield "kernel.stores", inner.stores / operations
    yield "kernel.code", _log(inner.code)
    yield "kernel.cycles", _log(inner.cycles / operations)


def _footprints(part: Part, cpu: CpuModel) -> Columns:
    """What one run of the straight code and one task touch, and what each cache fetches."""
    shape = part.shape
    task, steps = _touched(shape, ~part.run.parallel), np.maximum(shape.iterations, 1.0)
    yield "kernel.bytes", _log(_touched(shape, part.run.kernel))
    yield "task.bytes", _log(task)
    for level, cache in enumerate(cpu.caches[:LEVELS]):
        moved = shape.traffic(cpu.cache_share * cache.size, part.run.vector)
        yield f"cache{level}.task", _log(task / cache.size)
        yield f"cache{level}.moved", _log(moved)
        yield f"cache{level}.per_operation", _log(moved / steps)


def _touched(shape: Shape, inside: Bools) -> Floats:
    """Bytes that some loops touch."""
    ranges, block = shape.ranges(inside), shape.block
    found = [shape.footprint(access, ranges).bytes for access in (block.write, *block.reads)]
    return np.asarray(np.add.reduce(found))


def _static(costs: Costs, part: Part, handicap: float) -> Columns:
    """The static model's estimate and the terms of the main block, as shares of it."""
    seconds = costs.seconds()
    yield STATIC, _log(handicap * seconds)
    yield "static.handicap", _log(handicap)
    yield "static.feasible", costs.feasible()
    yield "static.main", part.seconds / seconds
    yield "static.compute", part.compute / seconds
    yield "static.forks", sum((each.forks for each in costs.parts), np.zeros(costs.n)) / seconds
    yield "static.seams", sum((each.seams for each in costs.parts), np.zeros(costs.n)) / seconds
    for level in range(LEVELS):
        yield f"static.transfer{level}", part.transfers[level] / seconds if level < len(part.transfers) else 0.0
