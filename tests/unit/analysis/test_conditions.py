"""What is read under a condition costs tests, which straight code shares."""

from __future__ import annotations

import numpy as np
import pytest
from marked_nests import AVX512, F, fixed

from tunesmith.analysis.model import Costs
from tunesmith.analysis.nest import Access, Block, Buffer, Index, Kind, Nest

ROWS, TAPS, LANES = 4, 3, 16
ROW, TAP, LANE = 0, 1, 2
LINE = Index(((ROW, 1), (TAP, 1)))
"""Of an image, under a window."""
ACROSS = Index(((LANE, 1),))


def instructions(line: tuple[Index, ...], *conditions: tuple[int, ...]) -> float:
    """Cycles of a window's straight code that reads lines under conditions, as instructions."""
    loops = (
        fixed(0, ROWS, ROW, kind=Kind.UNROLLED),
        fixed(1, TAPS, TAP, kind=Kind.UNROLLED, reduction=True),
        fixed(2, LANES, LANE, kind=Kind.VECTOR),
    )
    reads = Access(1, line), Access(2, (Index(((TAP, 1),)), ACROSS))
    write = Access(0, (Index(((ROW, 1),)), ACROSS))
    block = Block("y", (ROWS, TAPS, LANES), loops, write, reads, 1.0, conditions=conditions, update=True)
    shape = (ROWS + TAPS - 1, LANES)[: len(line)]
    buffers = Buffer("y", (ROWS, LANES), F), Buffer("x", shape, F), Buffer("w", (TAPS, LANES), F)
    (part,) = Costs(Nest((block,), buffers), (), np.zeros((1, 0), dtype=np.int64), AVX512).parts
    return float(part.inner.cycles[0]) * AVX512.width


def test_a_test_is_shared_by_the_vectors_that_it_decides_on() -> None:
    whole = (LINE, ACROSS)
    many = [instructions(whole, *[(ROW, TAP)] * count) for count in (20, 21)]
    assert many[1] - many[0] == pytest.approx(ROWS * TAPS * AVX512.test_instructions)
    row = [instructions(whole, *[(ROW,)] * count) for count in (20, 21)]
    assert row[1] - row[0] == pytest.approx(ROWS * AVX512.test_instructions), "one for each row"


def test_single_values_are_tested_each_time() -> None:
    row = [instructions((LINE,), *[(ROW,)] * count) for count in (20, 21)]
    assert row[1] - row[0] == pytest.approx(ROWS * TAPS * AVX512.test_instructions)


def test_elements_that_differ_in_it_have_each_a_test_of_their_own() -> None:
    lane = [instructions((LINE, ACROSS), *[(LANE,)] * count) for count in (5, 6)]
    assert lane[1] - lane[0] == pytest.approx(ROWS * TAPS * LANES * AVX512.condition_instructions)
