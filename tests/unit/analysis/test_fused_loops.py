"""What tasks of a parallel loop share that was fused of several loops, and what steps of a vector share."""

from __future__ import annotations

import numpy as np
import pytest
from marked_nests import F, fixed

from tunesmith.analysis.nest import Access, Block, Buffer, Index, Kind, Loop, Nest
from tunesmith.analysis.shape import Shape

SIZE, ROWS, COLUMNS = 64, 8, 32
BUFFER = SIZE * SIZE * F
TILE = ROWS * COLUMNS * F + ROWS * SIZE * F + SIZE * COLUMNS * F
"""Bytes of what one tile of the product needs."""


def traffic(*outer: Loop) -> float:
    """Bytes that a cache of the size of a tile fetches for a product in tiles, over the whole reduction each."""
    loops = (
        *outer,
        fixed(8, SIZE, 2, reduction=True),
        fixed(9, ROWS, 0, kind=Kind.UNROLLED),
        fixed(10, COLUMNS, 1, kind=Kind.VECTOR),
    )
    i, j, k = (Index(((axis, 1),)) for axis in range(3))
    reads = (Access(1, (i, k)), Access(2, (k, j)))
    block = Block("C", (SIZE,) * 3, loops, Access(0, (i, j)), reads, 1.0, update=True)
    buffers = tuple(Buffer(name, (SIZE, SIZE), F) for name in "CAB")
    return float(Shape.make(Nest((block,), buffers), block, {}, 1).traffic(TILE)[0])


@pytest.mark.parametrize(
    ("axes", "again"),
    [((0, 1), (SIZE // ROWS - 1) * BUFFER), ((1, 0), (SIZE // COLUMNS - 1) * BUFFER)],
    ids=["panels for each row of tiles", "rows for each panel"],
)
def test_a_parallel_loop_of_several_axes_is_a_loop_for_each(axes: tuple[int, int], again: int) -> None:
    steps = (SIZE // ROWS, SIZE // COLUMNS)
    fused = traffic(fixed(0, steps[0] * steps[1], *axes, kind=Kind.PARALLEL))
    assert fused == traffic(*(fixed(at, steps[axis], axis, kind=Kind.PARALLEL) for at, axis in enumerate(axes)))
    assert fused == 4 * BUFFER + again, "each once, the result back, and what the outer loop does not move"


@pytest.mark.parametrize(("together", "expected"), [(True, 2 * 64 * F), (False, 2 * 32 * 64 * F)])
def test_a_buffer_inside_of_a_loop_is_used_again_in_each_step(together: bool, expected: float) -> None:
    """One block writes rows that another reads, both in the loop over rows, or one after the other."""
    row = Access(0, (Index(((0, 1),)), Index(((1, 1),))))
    loops = [(fixed(0 if together or block == 0 else 2, 32, 0), fixed(3 + block, 64, 1)) for block in range(2)]
    writer = Block("writer", (32, 64), loops[0], row, (), 1.0)
    reader = Block("reader", (32, 64), loops[1], Access(1, row.indices), (row,), 1.0)
    nest = Nest((writer, reader), (Buffer("rows", (32, 64), F), Buffer("out", (32, 64), F)))
    assert Shape.make(nest, writer, {}, 1).traffic(64 * F)[0] == expected
    assert nest.around == {0: frozenset({0} if together else ())}


@pytest.mark.parametrize("kind", [Kind.SERIAL, Kind.PARALLEL])
def test_a_fused_loop_goes_through_its_innermost_axis_first(kind: Kind) -> None:
    """A map of 56 rows and columns is one run, in tasks or steps of 7 vectors of 16: two rows are a step."""
    loops = (fixed(0, 28, 0, 1, kind=kind), fixed(1, 7, 0, 1, kind=Kind.UNROLLED), fixed(2, 16, 0, 1, kind=Kind.VECTOR))
    place = Index(((0, 1),)), Index(((1, 1),))
    block = Block("copy", (56, 56), loops, Access(0, place), (Access(1, place),), 0.0)
    shape = Shape.make(Nest((block,), tuple(Buffer(name, (56, 56), F) for name in "ba")), block, {}, 1)
    lanes, steps, whole = (
        [at < len(shape.extents) - inside for at in range(len(shape.extents))] for inside in (1, 2, 9)
    )
    assert shape.ranges(~np.array([lanes]).T)[:, 0].tolist() == [1, 16]
    assert shape.ranges(~np.array([steps]).T)[:, 0].tolist() == [2, 56]
    assert shape.ranges(~np.array([whole]).T)[:, 0].tolist() == [56, 56]
    assert shape.nested[0, :, 0].tolist() == [56, 56]
    assert shape.traffic(2 * 2 * 56 * F)[0] == 3 * 56 * 56 * F, "each is read once; the result counts twice"


def test_steps_of_a_vector_share_their_lines() -> None:
    """Eight rows of 64 columns are summed inside of a vector along them, as where a compiler made the vector."""
    loops = fixed(0, 4, 0), fixed(1, 64, 1), fixed(2, 8, 2, reduction=True)
    row, column = Index(((0, 1),)), Index(((1, 1),))
    read = Access(1, (Index(((2, 1),)), column))
    block = Block("sums", (4, 64, 8), loops, Access(0, (row, column)), (read,), 1.0, update=True)
    buffers = Buffer("sums", (4, 64), F), Buffer("x", (8, 64), F)
    shape = Shape.make(Nest((block,), buffers), block, {}, 1)
    size, written = 9 * 64, 2 * 4 * 64 * F  # a line of each row fits, and no two
    alone = shape.traffic(size)[0]
    assert alone == 4 * 64 * 8 * 64 + 2 * 4 * 64 * 64, "without a vector each step fetches whole lines"
    vector = np.array([[False], [True], [False]])
    assert shape.traffic(size, vector)[0] == 4 * 8 * 64 * F + written
