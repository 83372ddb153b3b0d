"""Runs follow each other: what one leaves in a cache the next one finds there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from marked_nests import AVX512, F, fixed

from tunesmith.analysis.cpu_model import Cache
from tunesmith.analysis.model import Costs
from tunesmith.analysis.nest import Access, Block, Buffer, Index, Kind, Nest

STEPS, COLUMNS = 64, 1024
MATRIX = STEPS * COLUMNS * F
TOUCHED = MATRIX + STEPS * F + COLUMNS * F
"""Bytes of a vector times a matrix, with the result."""
RATE = 1e9


def costs_of(size: float, tasks: int, moves: int = 0, vector: int = 16, rate: float = RATE) -> Costs:
    """Costs where a second level of cache has room for ``size`` bytes.

    Args:
        tasks: steps of the parallel loop, of which each of two cores has its share.
        moves: axis that the parallel loop moves: 0 goes through the columns, 1 repeats all of them.
        vector: columns of a vector.
        rate: bytes/s that each cache gives a core.
    """
    columns = COLUMNS // tasks if moves == 0 else COLUMNS
    loops = (
        fixed(0, tasks, moves, kind=Kind.PARALLEL),
        fixed(1, STEPS, 2, reduction=True),
        fixed(2, columns // vector, 0),
        fixed(3, vector, 0, kind=Kind.VECTOR),
    )
    column, step = Index(((0, 1),)), Index(((2, 1),))
    reads = (Access(1, (step,)), Access(2, (step, column)))
    block = Block("y", (COLUMNS, tasks, STEPS), loops, Access(0, (column,)), reads, 1.0, update=True)
    buffers = (Buffer("y", (COLUMNS,), F), Buffer("x", (STEPS,), F), Buffer("w", (STEPS, COLUMNS), F))
    caches = tuple(Cache(int(room / AVX512.cache_share), rate) for room in (1024, size, 1e9))
    cpu = replace(AVX512, cores=2, caches=caches)
    return Costs(Nest((block,), buffers), (), np.zeros((1, 0), dtype=np.int64), cpu)


def fetched(size: float, tasks: int, moves: int = 0) -> float:
    """Bytes that the second level lacks, in the time of one core."""
    (part,) = costs_of(size, tasks, moves).parts
    return float(part.transfers[1][0]) * RATE if len(part.transfers) > 1 else 0.0


def test_what_fits_is_there_already() -> None:
    assert fetched(TOUCHED + 1, 1) == 0.0
    assert fetched(TOUCHED / 2, 1) > 0.0


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_of_what_does_not_fit_a_part_is_left(share: float) -> None:
    moved, lines = TOUCHED + COLUMNS * F, STEPS * AVX512.line_bytes  # the result goes back, and a line for each step
    assert fetched(share * TOUCHED, 1) == pytest.approx(moved * (1 - share) + lines, abs=2 * STEPS * F)


def test_cores_share_what_their_tasks_move() -> None:
    room = 0.6 * TOUCHED
    assert fetched(room, 1) > 0.0
    assert fetched(room, 2) == 0.0
    assert fetched(room, 2, moves=1) > 0.0, "each of them reads the whole matrix"
    assert fetched(room, 3) > 0.0, "one of them has two tasks of three"


FREE = 1e18
"""Bytes/s that take no time."""


@pytest.mark.parametrize(
    ("rate", "least"),
    [(RATE, TOUCHED / RATE / 2), (FREE, STEPS * COLUMNS / (AVX512.lanes() * AVX512.pipes * AVX512.clock * 2))],
    ids=["memory", "arithmetic"],
)
def test_the_excess_is_over_what_cores_and_caches_can_do_at_best(rate: float, least: float) -> None:
    costs = costs_of(TOUCHED + 1, 2, rate=rate)
    (part,) = costs.parts
    assert costs.excess()[0] == pytest.approx((part.seconds[0] - part.forks[0]) / least)
    assert costs.excess()[0] >= 0.99


def test_a_quarter_of_a_vector_is_farther_from_the_limit() -> None:
    whole, quarter = (costs_of(TOUCHED + 1, 2, vector=lanes, rate=FREE) for lanes in (16, 4))
    assert quarter.excess()[0] > 1.5 * whole.excess()[0]
