"""What one core writes among what others write."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from marked_nests import AVX512, F, fixed

from tunesmith.analysis.model import Costs
from tunesmith.analysis.nest import Access, Block, Buffer, Index, Kind, Loop, Nest

CHANNELS, ROWS, COLUMNS = 24, 14, 224
"""Of a map whose rows are of a few hundred bytes."""
CHANNEL, ROW, COLUMN = 0, 1, 2


def seams_of(*loops: Loop, cores: int = 2, rows: int = ROWS, columns: int = COLUMNS, local: bool = False) -> float:
    """How many pieces of a map a core writes among those of others, by the seconds that these cost."""
    axes = (CHANNELS, rows, columns)
    where = tuple(Index(((axis, 1),)) for axis in range(len(axes)))
    block = Block("y", axes, loops, Access(0, where), (Access(1, where),), 1.0)
    buffers = (Buffer("y", axes, F, local=local), Buffer("x", axes, F))
    cpu = replace(AVX512, cores=cores)
    (part,) = Costs(Nest((block,), buffers), (), np.zeros((1, 0), dtype=np.int64), cpu).parts
    return float(part.seams[0]) / cpu.seam_seconds


def parallel(steps: int, axis: int) -> Loop:
    """An outermost loop."""
    return fixed(0, steps, axis, kind=Kind.PARALLEL)


def test_halves_of_channels_meet_once() -> None:
    loops = parallel(2, CHANNEL), fixed(1, CHANNELS // 2, CHANNEL), fixed(2, ROWS, ROW), fixed(3, COLUMNS, COLUMN)
    assert seams_of(*loops) == 0.0


@pytest.mark.parametrize("steps", [2, 7, 14])
def test_halves_of_rows_meet_in_every_channel(steps: int) -> None:
    loops = parallel(steps, ROW), fixed(1, CHANNELS, CHANNEL), fixed(2, ROWS // steps, ROW)
    assert seams_of(*loops, fixed(3, COLUMNS, COLUMN)) == CHANNELS - 1


def test_tasks_that_follow_each_other_are_of_one_core() -> None:
    fused = Loop(0, fixed(0, 2 * ROWS, CHANNEL).extent, (CHANNEL, ROW), Kind.PARALLEL)
    loops = fused, fixed(1, CHANNELS // 2, CHANNEL), fixed(2, COLUMNS, COLUMN)
    assert seams_of(*loops) == 0.0
    assert seams_of(*loops, cores=4) == pytest.approx(CHANNELS // 2 - 1), "two cores for each half of the channels"


def test_short_pieces_are_fetched_whole() -> None:
    """Of pieces of 28 bytes no more than their bytes can go back and forth."""
    loops = parallel(2, COLUMN), fixed(1, CHANNELS, CHANNEL), fixed(2, ROWS, ROW), fixed(3, 7, COLUMN)
    assert seams_of(*loops, columns=14) == pytest.approx(CHANNELS * ROWS * 7 * F / AVX512.seam_bytes)


def test_nobody_else_writes_what_is_of_one_thread() -> None:
    loops = parallel(2, ROW), fixed(1, CHANNELS, CHANNEL), fixed(2, ROWS // 2, ROW), fixed(3, COLUMNS, COLUMN)
    assert seams_of(*loops, local=True) == 0.0
    assert seams_of(*loops[1:]) == 0.0, "one core"
    assert seams_of(*loops, cores=1) == 0.0


def received(*reads: Loop, writes: tuple[Loop, ...], cores: int = 2, room: float = 1e9) -> float:
    """Bytes that a core reads of a map which another block has made."""
    axes = (CHANNELS, ROWS, COLUMNS)
    where = tuple(Index(((axis, 1),)) for axis in range(len(axes)))
    made = Block("m", axes, writes, Access(0, where), (Access(1, where),), 1.0)
    used = Block("y", axes, reads, Access(2, where), (Access(0, where),), 1.0)
    buffers = Buffer("m", axes, F), Buffer("x", axes, F), Buffer("y", axes, F)
    cpu = replace(AVX512, cores=cores)
    caches = (cpu.caches[0], replace(cpu.caches[1], size=int(room)), *cpu.caches[2:])
    cpu = replace(cpu, caches=caches, seam_seconds=0.0)
    _, part = Costs(Nest((made, used), buffers), (), np.zeros((1, 0), dtype=np.int64), cpu).parts
    return float(part.seams[0]) * cpu.core_bandwidth


def of(loop: int, tasks: int, axis: int) -> tuple[Loop, ...]:
    """Loops over a map, the outermost of them parallel over one axis."""
    sizes = {CHANNEL: CHANNELS, ROW: ROWS, COLUMN: COLUMNS}
    inner = {each: size // (tasks if each == axis else 1) for each, size in sizes.items()}
    outer = fixed(loop, tasks, axis, kind=Kind.PARALLEL if tasks > 1 else Kind.SERIAL)
    return outer, *(fixed(loop + 1 + each, inner[each], each) for each in sizes)


MAP = CHANNELS * ROWS * COLUMNS * F
"""Bytes."""


def test_each_reads_what_it_wrote() -> None:
    assert received(*of(10, 2, CHANNEL), writes=of(0, 2, CHANNEL)) == 0.0
    assert received(*of(0, 2, ROW), writes=of(0, 2, CHANNEL)) == 0.0, "one parallel loop"
    assert received(*of(10, 1, ROW), writes=of(0, 1, ROW)) == 0.0, "one core"


def test_what_others_wrote_is_handed_over() -> None:
    assert received(*of(10, 2, ROW), writes=of(0, 2, CHANNEL)) == pytest.approx(MAP / 4), "half of a core's half"
    assert received(*of(10, 1, ROW), writes=of(0, 2, CHANNEL)) == pytest.approx(MAP / 2)
    assert received(*of(10, 2, ROW), writes=of(0, 1, CHANNEL)) == pytest.approx(MAP / 2), "one core wrote it all"
    assert received(*of(10, 4, CHANNEL), writes=of(0, 4, CHANNEL), cores=4) == 0.0


def test_no_more_is_handed_over_than_caches_of_others_hold() -> None:
    assert received(*of(10, 2, ROW), writes=of(0, 2, CHANNEL), room=4096) == 4096
