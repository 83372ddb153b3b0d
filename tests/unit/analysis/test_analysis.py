from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked_nests import AVX512, F, Source, fixed, marked

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.kernel import Kernel, kernel
from tunesmith.analysis.model import Costs
from tunesmith.analysis.nest import (
    Access,
    Block,
    Buffer,
    Extent,
    Factor,
    Index,
    Kind,
    Marks,
    Nest,
    Product,
    Term,
)
from tunesmith.analysis.prior import PIECE, StaticPrior
from tunesmith.analysis.running import running
from tunesmith.analysis.shape import Shape, extent, values_of
from tunesmith.space.base import Sketch
from tunesmith.space.knobs import ComputeLocation
from tunesmith.space.space import Space

EXACT = settings(max_examples=150, deadline=None, derandomize=True)


def shape_of(block: Block, buffers: tuple[Buffer, ...], n: int = 1) -> Shape:
    return Shape.make(Nest((block,), buffers), block, {}, n)


@st.composite
def nests(draw: st.DrawFn) -> tuple[Block, Buffer]:
    """A block of up to three axes, each split in two, and an access of which one dimension may slide a window."""
    tiles = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=2, max_size=3))
    order = draw(st.permutations([axis for axis in range(len(tiles)) for _ in range(2)]))
    seen = [0] * len(tiles)
    loops = []
    for number, axis in enumerate(order):  # of an axis, the outer part comes first
        loops.append(fixed(number, tiles[axis][seen[axis]], axis))
        seen[axis] += 1
    sizes = [a * b for a, b in tiles]
    stride = draw(st.integers(1, 3))
    window = Index(((0, stride), (1, 1)))
    indices = [window, Index(((2, 1),))] if len(tiles) == 3 else [window]
    shape = [stride * (sizes[0] - 1) + sizes[1], *sizes[2:]]
    if draw(st.booleans()):
        indices.append(Index(((0, 1),), divide=2))
        shape.append(-(-sizes[0] // 2))
    access = Access(0, tuple(indices))
    block = Block("b", tuple(sizes), tuple(loops), access, (), 1.0)
    return block, Buffer("x", tuple(shape), F)


def touched(block: Block, buffer: Buffer, place: int) -> set[tuple[int, ...]]:
    """What the loops from ``place`` inwards touch, the others at their start, one by one."""
    steps = [loop.extent.terms[0].count.scale for loop in block.loops]
    found = set()
    for at in itertools.product(*(range(size if i >= place else 1) for i, size in enumerate(steps))):
        axes = [0] * len(block.axes)
        weight = [1] * len(block.axes)
        for loop, position in reversed(list(zip(block.loops, at, strict=True))):
            (axis,) = loop.axes
            axes[axis] += weight[axis] * position
            weight[axis] *= loop.extent.terms[0].count.scale
        found.add(tuple(sum(s * axes[a] for a, s in index.strides) // index.divide for index in block.write.indices))
    return found


@EXACT
@given(nests())
def test_footprints_are_what_counting_finds(made: tuple[Block, Buffer]) -> None:
    block, buffer = made
    shape = shape_of(block, (buffer,))
    joint = len({axis for index in block.write.indices for axis, _ in index.strides}) < sum(
        len(index.strides) for index in block.write.indices
    )
    for place, ranges in enumerate(shape.nested):
        real = touched(block, buffer, place)
        guess = shape.footprint(block.write, ranges)
        assert np.array_equal(guess.elements, shape.elements(block.write, ranges))
        if joint:  # two dimensions that move together touch less than their product
            assert guess.elements[0] >= len(real)
        else:
            assert guess.elements[0] == len(real)
        assert guess.bytes[0] >= F * len(real)


@EXACT
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 64), st.integers(1, 3))
def test_lines_of_rows(rows: int, wide: int, part: int, more: int) -> None:
    """Rows that begin at a line: whole rows lie one after the other, parts of rows do not."""
    line = CpuModel().line_bytes
    width = line // F * wide
    part = min(part, width)
    block = Block(
        "b",
        (rows * more, part),
        (fixed(0, rows, 0), fixed(1, part, 1)),
        Access(0, (Index(((0, 1),)), Index(((1, 1),)))),
        (),
        1.0,
    )
    shape = shape_of(block, (Buffer("x", (rows * more, width), F),))
    lines = {(r * width + c) * F // line for r in range(rows) for c in range(part)}
    assert shape.footprint(block.write, shape.nested[0]).bytes[0] == line * len(lines)


def product_block(m: int, n: int, k: int, tile: tuple[int, int], unrolled: int = 1) -> tuple[Block, tuple[Buffer, ...]]:
    """``C += A * B``: tasks of rows, panels, the reduction, and a tile of rows and columns inside."""
    rows, columns = tile
    loops = (
        fixed(0, m // rows, 0, kind=Kind.PARALLEL),
        fixed(1, n // columns, 1),
        fixed(2, k // unrolled, 2, reduction=True),
        fixed(3, unrolled, 2, reduction=True, kind=Kind.UNROLLED),
        fixed(4, rows, 0, kind=Kind.UNROLLED),
        fixed(5, columns, 1, kind=Kind.VECTOR),
    )
    i, j, r = (Index(((axis, 1),)) for axis in range(3))
    block = Block("C", (m, n, k), loops, Access(0, (i, j)), (Access(1, (i, r)), Access(2, (r, j))), 1.0, update=True)
    return block, (Buffer("C", (m, n), F), Buffer("A", (m, k), F), Buffer("B", (k, n), F))


def test_the_kernel_of_a_product_in_registers() -> None:
    block, buffers = product_block(64, 64, 128, (8, 32))
    shape = shape_of(block, buffers)
    inner = kernel(shape, running(shape, None, {}, AVX512), AVX512)
    assert inner.operations[0] == 16  # 8 rows of two registers
    assert inner.accumulators[0] == 16
    assert inner.needed[0] <= 32
    assert inner.loads[0] == pytest.approx(8 + 2 + 16 / 128)  # a value of each row, two registers, what came in once
    assert inner.stores[0] == pytest.approx(16 / 128)
    assert inner.times[0] == 8 * 2 * 128
    assert 8.0 < inner.cycles[0] < 12.0  # two multiply-adds a cycle, and the loop


@pytest.mark.parametrize(("tile", "slower"), [((8, 64), True), ((1, 16), True), ((12, 32), False), ((6, 64), False)])
def test_too_many_and_too_few_accumulators_cost(tile: tuple[int, int], slower: bool) -> None:
    def cycles(tile: tuple[int, int]) -> float:
        block, buffers = product_block(192, 192, 128, tile)
        shape = shape_of(block, buffers)
        inner = kernel(shape, running(shape, None, {}, AVX512), AVX512)
        return float((inner.cycles * inner.times)[0])

    assert (cycles(tile) > 1.3 * cycles((8, 32))) == slower


def test_an_instruction_for_pairs_wants_more_accumulators() -> None:
    """Eight hide the latency of float32's multiply-adds; it takes fourteen of the instruction's."""

    def idle(rows: int, dotted: bool) -> float:
        block, buffers = product_block(192, 192, 128, (rows, 16))
        shape = shape_of(replace(block, dotted=dotted), buffers)
        inner = kernel(shape, running(shape, None, {}, AVX512), AVX512)
        return float((inner.cycles / inner.operations)[0])

    assert idle(8, dotted=True) > 1.3 * idle(8, dotted=False)
    assert idle(16, dotted=True) == idle(16, dotted=False)


def test_vectors_that_are_put_together_of_pieces_cost_more() -> None:
    """Fourteen floats are moved as 8, 4 and 2, and put together; they touch no fewer lines."""

    def inner(columns: int) -> Kernel:
        block, buffers = product_block(64, 4 * columns, 1, (8, columns))
        shape = shape_of(block, buffers)
        return kernel(shape, running(shape, None, {}, AVX512), AVX512)

    whole, odd = inner(16), inner(14)
    assert whole.code[0] == whole.operations[0] + whole.loads[0] + whole.stores[0]
    assert odd.operations[0] > 1.5 * whole.operations[0]
    assert odd.cycles[0] > 1.3 * whole.cycles[0]


def test_a_window_is_read_across_lines() -> None:
    """A row of sixteen pixels begins at a line, the same row moved by one does not."""

    def loads(moved: bool) -> float:
        loops = (fixed(0, 4, 1, reduction=True), fixed(1, 16, 0, kind=Kind.VECTOR))
        index = Index(((0, 1), (1, 1))) if moved else Index(((0, 1),))
        block = Block("C", (16, 4), loops, Access(0, (Index(((0, 1),)),)), (Access(1, (index,)),), 1.0, update=True)
        shape = shape_of(block, (Buffer("C", (16,), F), Buffer("X", (32,), F)))
        return float(kernel(shape, running(shape, Marks(), {}, AVX512), AVX512).loads[0])

    assert loads(True) > 1.5 * loads(False)


@pytest.mark.parametrize(("columns", "elements"), [(8, 0), (16, 0), (32, 32), (64, 64), (24, 24)])
def test_a_vector_that_runs_into_the_next_panel_is_fetched_element_by_element(columns: int, elements: int) -> None:
    block, buffers = product_block(64, 192, 128, (4, columns))
    panels = Access(2, (Index(((1, 1),), divide=16), Index(((2, 1),)), Index(((1, 1),), modulo=16)))
    packed = replace(block, reads=(block.reads[0], panels))
    shapes = shape_of(block, buffers), shape_of(packed, (*buffers[:2], Buffer("B", (12, 128, 16), F)))
    plain, apart = (kernel(shape, running(shape, None, {}, AVX512), AVX512) for shape in shapes)
    assert (apart.cycles[0] > 1.5 * plain.cycles[0]) == bool(elements)
    assert (apart.code[0] > 1.5 * plain.code[0]) == bool(elements)
    assert apart.loads[0] > 4 + 2 * elements if elements else apart.loads[0] == plain.loads[0]


@pytest.mark.parametrize(("pixels", "taps", "parked"), [(10, 5, False), (20, 5, True), (20, 1, False)])
def test_pixels_that_wait_for_a_later_step_take_registers(pixels: int, taps: int, parked: bool) -> None:
    """A window with stride 2: each pixel is used by two or three of the unrolled steps. Twenty accumulators leave no
    room for so many; a single step keeps none."""
    loops = (
        fixed(0, 4, 0, kind=Kind.PARALLEL),
        fixed(1, 5 // taps, 1, reduction=True),
        fixed(2, taps, 1, reduction=True, kind=Kind.UNROLLED),
        fixed(3, pixels, 0, kind=Kind.UNROLLED),
        fixed(4, 16, 2, kind=Kind.VECTOR),
    )
    window, place, lane = Index(((0, 2), (1, 1))), Index(((0, 1),)), Index(((2, 1),))
    reads = Access(1, (window,)), Access(2, (Index(((1, 1),)), lane))
    block = Block("C", (4 * pixels, 5, 16), loops, Access(0, (place, lane)), reads, 1.0, update=True)
    buffers = Buffer("C", (4 * pixels, 16), F), Buffer("X", (8 * pixels + 3,), F), Buffer("W", (5, 16), F)
    shape = shape_of(block, buffers)
    inner = kernel(shape, running(shape, None, {}, AVX512), AVX512)
    assert inner.needed[0] <= 32
    assert (inner.stores[0] > 2 * pixels * taps / 5) == parked
    assert (inner.cycles[0] > 1.3 * inner.operations[0] / 2 + 1) == parked


@pytest.mark.parametrize(("length", "turns"), [(64, 4), (30, 9), (20, 5)])
def test_what_a_compiled_loop_leaves_over_comes_element_by_element(length: int, turns: int) -> None:
    """A loop that no mark vectorises has one width: thirty are three times eight, and six."""
    loops = (fixed(0, 8, 0), fixed(1, 1000, 2, reduction=True), fixed(2, length, 1))
    write, read = Access(0, (Index(((0, 1),)), Index(((1, 1),)))), Access(1, (Index(((2, 1),)), Index(((1, 1),))))
    block = Block("C", (8, length, 1000), loops, write, (read,), 40.0, update=True)
    shape = shape_of(block, (Buffer("C", (8, length), F), Buffer("X", (1000, length), F)))
    run = running(shape, Marks(), {}, AVX512)
    assert run.memory[0]
    assert kernel(shape, run, AVX512).operations[0] == 40 * turns


@pytest.mark.parametrize(("row", "elements"), [(20, False), (24, True)])
def test_pixels_that_were_counted_lie_together(row: int, elements: bool) -> None:
    """Sixteen pixels go on in the next row of the image; of a wider buffer they are a part of each row."""
    block, buffers = product_block(64, 400, 128, (4, 16))
    pixels = Access(2, (Index(((2, 1),)), Index(((1, 1),), divide=20), Index(((1, 1),), modulo=20)))
    image = replace(block, reads=(block.reads[0], pixels))
    shape = shape_of(image, (*buffers[:2], Buffer("B", (128, 20, row), F)))
    assert (kernel(shape, running(shape, None, {}, AVX512), AVX512).loads[0] > 4 + 16) == elements


def test_what_is_refused() -> None:
    def good(tile: tuple[int, int], unrolled: int = 1) -> bool:
        block, buffers = product_block(512, 512, 512, tile, unrolled)
        return bool(Costs(Nest((block,), buffers), (), np.zeros((1, 0), dtype=np.int64), AVX512).feasible()[0])

    assert good((8, 32))
    assert not good((64, 64))  # 256 accumulators
    assert good((8, 32), 16)
    assert not good((8, 32), 512)  # 8192 multiply-adds of straight code


def test_traffic_of_a_product_by_hand() -> None:
    block, buffers = product_block(64, 64, 64, (8, 32))
    shape = shape_of(block, buffers)
    everything = 3 * 64 * 64 * F
    assert shape.traffic(1e9)[0] == everything + 64 * 64 * F  # each once, and C back
    # What one task needs fits, all does not: eight tasks move rows of C and A, but not B, which stays.
    task = 8 * 64 * F + 8 * 64 * F + 64 * 64 * F
    assert shape.traffic(task)[0] == everything + 64 * 64 * F
    # A tile over the whole reduction fits: B comes again for each of eight tasks, A not again for the second panel.
    tile = 8 * 32 * F + 8 * 64 * F + 64 * 32 * F
    assert shape.traffic(tile)[0] == everything + 64 * 64 * F + 7 * 64 * 64 * F


@EXACT
@given(nests(), st.lists(st.integers(6, 20), min_size=2, max_size=2))
def test_a_larger_cache_never_fetches_more(made: tuple[Block, Buffer], sizes: list[int]) -> None:
    block, buffer = made
    shape = shape_of(block, (buffer,))
    small, large = (float(shape.traffic(2.0**size)[0]) for size in sorted(sizes))
    assert small >= large >= 2 * shape.footprint(block.write, shape.nested[0]).bytes[0]


def test_extents() -> None:
    values = {Factor(0, 0): np.array([2.0, 4.0]), Factor(0, 1): np.array([8.0, 3.0])}
    plain = Extent.of(Product(3, (Factor(0, 0), Factor(0, 1))))
    assert extent(values, plain, 2).tolist() == [48.0, 36.0]
    window = Extent((Term(2, Product(1, (Factor(0, 0),))), Term(1, Product(3))), most=8, per=Product(2))
    assert extent(values, window, 2).tolist() == [3.0, 4.0]  # ceil((1 + 2 + 2) / 2), min(8, 1 + 6 + 2) / 2


def test_marks() -> None:
    nest, knobs = marked()
    tiles = [((16, 1), (4, 16)), ((4, 4), (4, 16)), ((1, 16), (8, 8)), ((2, 8), (64, 1))]
    choice = np.array([[knobs[0].find([a])[0], knobs[1].find([b])[0], 1] for a, b in tiles])
    values = values_of(nest, knobs, choice)
    shape = Shape.make(nest, nest.blocks[0], values, len(tiles))
    run = running(shape, nest.marks, values, AVX512)
    assert np.where(run.parallel, shape.extents, 1).prod(axis=0).tolist() == [16, 16, 8, 128]
    assert np.where(run.vector, shape.extents, 1).prod(axis=0).tolist() == [16, 16, 8, 64]
    assert np.where(run.kernel & ~run.vector, shape.extents, 1).prod(axis=0).tolist() == [16, 16, 64, 32]
    assert run.compiled.tolist() == [False, False, False, True]


@pytest.mark.parametrize(("marked", "steps"), [(0, 16), (512, 256)])
def test_what_is_unrolled(marked: int, steps: int) -> None:
    """Unasked up to some hundred instructions, here of a step with a vector, a value and a multiply-add each."""
    loops = (fixed(0, 64, 0), fixed(1, 16, 2, reduction=True), fixed(2, 16, 0), fixed(3, 16, 1))
    i, j, r = (Index(((axis, 1),)) for axis in range(3))
    reads = (Access(1, (i, r)), Access(2, (r, j)))
    block = Block("C", (1024, 16, 16), loops, Access(0, (i, j)), reads, 1.0, update=True)
    buffers = (Buffer("C", (1024, 16), F), Buffer("A", (1024, 16), F), Buffer("B", (16, 16), F))
    shape = shape_of(block, buffers)
    run = running(shape, Marks(0, 64, Product(marked)), {}, AVX512)
    assert np.where(run.kernel & ~run.vector, shape.extents, 1).prod() == steps


def test_compilers_vectorise_what_nobody_marked() -> None:
    """The loop around straight code, along the last dimension; its results go through memory."""
    loops = (fixed(0, 64, 0), fixed(1, 512, 2, reduction=True), fixed(2, 64, 1), fixed(3, 4, 2, reduction=True))
    i, j, r = (Index(((axis, 1),)) for axis in range(3))
    reads = (Access(1, (i, r)), Access(2, (r, j)))
    block = Block("C", (64, 64, 2048), loops, Access(0, (i, j)), reads, 1.0, update=True)
    buffers = (Buffer("C", (64, 64), F), Buffer("A", (64, 2048), F), Buffer("B", (2048, 64), F))
    shape = shape_of(block, buffers)
    run = running(shape, None, {}, AVX512)
    assert run.vector[:, 0].tolist() == [False, False, True, False]
    assert run.kernel[:, 0].tolist() == [False, False, True, True]
    assert run.memory[0]
    assert run.compiled[0]
    inner = kernel(shape, run, AVX512)
    assert inner.operations[0] == 4 * 4
    assert inner.stores[0] == 4


def test_a_loop_that_a_compiler_vectorised_is_as_much_code_as_one_vector() -> None:
    """Sums of short rows: the rows become vectors of a loop, however many they are."""
    loops = (fixed(0, 4096, 0), fixed(1, 32, 1, reduction=True))
    row, column = (Index(((axis, 1),)) for axis in range(2))
    block = Block("s", (4096, 32), loops, Access(0, (row,)), (Access(1, (row, column)),), 1.0, update=True)
    buffers = (Buffer("s", (4096,), F), Buffer("x", (4096, 32), F))
    shape = shape_of(block, buffers)
    run = running(shape, None, {}, AVX512)
    assert run.memory[0]
    assert kernel(shape, run, AVX512).code[0] < 32 * 16 * 4
    assert Costs(Nest((block,), buffers), (), np.zeros((1, 0), dtype=np.int64), AVX512).feasible()[0]


def test_even_shares_and_vectors_are_estimated_faster() -> None:
    assert marked_seconds((4, 4), (4, 16)) < marked_seconds((1, 16), (1, 64))  # a single task
    assert marked_seconds((4, 4), (4, 16)) < marked_seconds((4, 4), (32, 2))  # an eighth of a register


def marked_seconds(rows: tuple[int, int], columns: tuple[int, int], task_cycles: float = 0.0) -> float:
    nest, knobs = marked(parallel=64)
    choice = np.array([[knobs[0].find([rows])[0], knobs[1].find([columns])[0], 1]])
    return float(Costs(nest, knobs, choice, replace(AVX512, task_cycles=task_cycles)).seconds()[0])


@pytest.mark.parametrize(("rows", "tasks"), [((1, 16), 1), ((4, 4), 4), ((16, 1), 16)])
def test_each_task_of_a_core_takes_its_time(rows: tuple[int, int], tasks: int) -> None:
    more = marked_seconds(rows, (1, 64), 100.0) - marked_seconds(rows, (1, 64))
    each = math.ceil(tasks / AVX512.cores)
    assert more == pytest.approx(100.0 / AVX512.clock * each)


def test_estimates_of_a_batch_are_those_of_its_points() -> None:
    nest, knobs = marked()
    sketch = Sketch("s", knobs)
    batch = Space([sketch]).sample(np.random.default_rng(0), 50)
    together = Costs(nest, knobs, batch.choice, AVX512).seconds()
    alone = [Costs(nest, knobs, batch.choice[i : i + 1], AVX512).seconds()[0] for i in range(50)]
    assert together.tolist() == alone
    assert np.isfinite(together).all()
    assert (together > 0).all()


def test_work_is_cut_into_units() -> None:
    entered: list[int] = []

    @contextlib.contextmanager
    def unit() -> Iterator[None]:
        entered.append(1)
        yield
        entered.append(-1)

    space = Space([Sketch("s", (*marked()[1], ComputeLocation(-1, 0)))])
    prior = StaticPrior(space, Source(), AVX512, unit)
    batch = space.sample(np.random.default_rng(0), 3 * PIECE)
    assert np.array_equal(prior(batch), StaticPrior(space, Source(), AVX512)(batch), equal_nan=True)
    assert entered == [1, -1] * (len(entered) // 2)
    assert len(entered) // 2 == 3 + 4  # two nests and one piece of points to see whether to trust; two and two
