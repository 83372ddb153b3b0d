"""Winograd's convolution of feature maps: transforms around matrix products, a band of tiles at a time.

What a band of tiles has in between, its transformed inputs and its products, is nine times as large as a direct
convolution's input and output, and is only worth anything where it stays in a core's own cache (Budden et al., "Deep
tensor convolution on multicores", 2017; Jia et al., "Optimizing N-dimensional, Winograd-based convolution for manycore
CPUs", PPoPP 2018). So a band goes through all stages before the next one begins. The products have accumulators in
registers like any other matrix product (Goto and van de Geijn, 2008).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules import rounding
from workers.tvm_backend.design_space.rules.base import Rule, Variant
from workers.tvm_backend.design_space.rules.contraction import axes_of, factors_of, is_channel, only
from workers.tvm_backend.design_space.rules.dots import accumulate, dot_of, place_widening, seen_by_tiles
from workers.tvm_backend.design_space.rules.epilogue import fold, foldable
from workers.tvm_backend.design_space.rules.registers import Box, boxes, innermost
from workers.tvm_backend.design_space.rules.stages import fused
from workers.tvm_backend.dot.bits import BITS, PAIR
from workers.tvm_backend.dot.intrinsics import Dot

AXES, AXES_OF_PAIRS = 9, 10
"""Loops of the products: of single values, and of what shares a lane."""


class Winograd(Rule):
    """Applies to the stages of ``layout.winograd.conv2d_winograd`` and what is element by element behind them.

    Sketches: each band of rows transforms its own inputs; or all of them are transformed first, and threads share
    groups of output channels as well, which suits many channels and few tiles. Both with the one or two most promising
    boxes of tiles in registers. Knobs: rows of a band, channels of a group and of a box, unrolling of the reduction.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = find(sch)
        if found is None or found.dtype != "float32" or found.lanes % cpu.lanes():
            return
        if not foldable(sch, sch.get_sblock(found.result)):
            return
        dot = None if found.wide is None else dot_of(cpu, found.lanes, BITS)
        if found.wide is not None and (dot is None or dot.lanes != cpu.lanes()):
            return
        seen = seen_by_tiles(cpu, dot)
        for box in boxes(seen, found.lanes // cpu.lanes(), found.rows, found.columns, found.outs):
            for ahead in (False, True):
                yield partial(_schedule, plan=WinogradPlan(found, cpu.lanes(), box, ahead, cpu, dot))


@dataclass(frozen=True)
class WinogradConv:
    """Names of the stages, and what their axes are.

    Attributes:
        pad: makes [n, c, y, x, lane], of a plain map as well; None where there is no padding.
        half, inputs: columns, then rows of each tile transformed: [n, c, row, i, x, lane], [n, row, i, j, c, column,
            lane].
        products: [n, o, i, j, row, column, lane], summed over c and its lanes.
        part, outputs: columns, then rows transformed back: [n, o, row, column, k, j, lane], [n, o, row, k, column, l,
            lane].
        result: [n, o, y, x, lane].
        rows, columns: tiles.
        outs: blocks of output channels.
        size: size of an output tile.
        lanes: channels of a block.
        dtype: data type of the result.
        bits, wide: round the transformed inputs to bfloat16 and widen them, for products of pairs; None of float32.
    """

    pad: str | None
    half: str
    inputs: str
    products: str
    part: str
    outputs: str
    result: str
    rows: int
    columns: int
    outs: int
    size: int
    lanes: int
    dtype: str
    bits: str | None = None
    wide: str | None = None


@dataclass(frozen=True)
class WinogradPlan:
    """What is fixed in a sketch.

    Attributes:
        vector: floats of a register.
        box: tiles and blocks of output channels, the latter at most, whose products are in registers.
        ahead: all inputs are transformed before the first product.
        cpu: CPU that the sketch is for.
        dot: how pairs are multiplied; None where the operands are float32.
    """

    found: WinogradConv
    vector: int
    box: Box
    ahead: bool
    cpu: CpuModel
    dot: Dot | None = None


def find(sch: Schedule) -> WinogradConv | None:
    """The workload's stages; None when it is something else."""
    return only(sch, match)


def match(sch: Schedule, handle: Any) -> WinogradConv | None:
    """The stages around a block of products; None when it is something else."""
    extents = _product_extents(sch, handle)
    if extents is None:
        return None
    before, after = _chain(sch, handle, sch.get_producers), _chain(sch, handle, sch.get_consumers)[:3]
    narrow = [str(sch.get(each).name_hint) for each in before[: 2 if len(extents) == AXES_OF_PAIRS else 0]]
    before = before[len(narrow) :]
    ranks = [len(sch.get(each).iter_vars) for each in (*before, *after)]
    if len(before) not in (2, 3) or ranks != [*[7, 6, 5][: len(before)], 7, 7, 5]:
        return None
    if any(sch.get(each).init is not None for each in (*before, *after)):
        return None
    pad = str(sch.get(before[2]).name_hint) if len(before) == 3 else None
    inputs, half, part, outputs, result = (str(sch.get(each).name_hint) for each in (*before[:2], *after))
    size = int(sch.get(after[0]).iter_vars[4].dom.extent)
    _, outs, _, _, rows, columns, lanes, *_ = extents
    block = sch.get(handle)
    return WinogradConv(
        pad,
        half,
        inputs,
        str(block.name_hint),
        part,
        outputs,
        result,
        rows,
        columns,
        outs,
        size,
        lanes,
        str(block.body.buffer.dtype),
        *reversed(narrow),
    )


def _product_extents(sch: Schedule, handle: Any) -> tuple[int, ...] | None:
    """Extents of ``M[n, o, i, j, y, x, l] += V[n, y, i, j, c, x, k] * U[o, i, j, c, k, l]``; None of another block.

    In pairs it is ``V[…, 2 k + s] * U[…, l, s]``, and V is what a stage has widened.
    """
    block = sch.get(handle)
    loads, count = factors_of(block), len(block.iter_vars)
    if loads is None or count not in (AXES, AXES_OF_PAIRS) or len(sch.get_loops(handle)) != count:
        return None
    variables = [each.var for each in block.iter_vars]
    *outer, c, k, lane = 1, 2, 3, 7, 8, 6
    pair = [*range(AXES, count)]
    v, u = sorted(loads, key=lambda load: axes_of(load.indices, variables) == [*outer, c, k, lane, *pair])
    if axes_of(block.body.indices, variables) != [*range(7)]:
        return None
    if axes_of(u.indices, variables) != [*outer, c, k, lane, *pair] or bool(pair) != (str(u.source.dtype) == BITS):
        return None
    *places, channel = v.indices
    if axes_of(places, variables) != [0, 4, 2, 3, 7, 5]:
        return None
    if not is_channel(channel, [variables[at] for at in (k, *pair)], PAIR):
        return None
    return tuple(int(each.dom.extent) for each in block.iter_vars)


def _chain(sch: Schedule, handle: Any, neighbours: Any) -> list[Any]:
    """Blocks one after another, up to the first that has several neighbours."""
    found: list[Any] = []
    while len(following := neighbours(handle)) == 1:
        (handle,) = following
        found.append(handle)
    return found


def _schedule(sch: Schedule, plan: WinogradPlan) -> None:
    found, dot = plan.found, plan.dot
    if dot is not None and found.bits is not None and found.wide is not None:
        place_widening(sch, sch.get_sblock(found.products), dot)
        if dot.widened:  # inputs are transformed, rounded and widened in one stage
            sch.compute_inline(sch.get_sblock(found.inputs))
            found = replace(found, inputs=found.wide, bits=None)
            plan = replace(plan, found=found)
    rounded = None if dot is None else rounding.find(sch, sch.get_sblock(found.result), dot)
    last = fold(sch, sch.get_sblock(found.result), rounded)
    if last is not None:
        sch.compute_inline(sch.get_sblock(found.result))
    loops = _output_loops(sch, plan)
    sch.reverse_compute_at(sch.get_sblock(last or found.result), loops.row, preserve_unit_loops=True)
    written = sch.get_sblock(last or found.result)
    if rounded is not None:
        rounding.place(sch, written, rounded, loops.row, 5, unroll=False)
    else:
        sch.vectorize(sch.get_loops(written)[-1])
    reduction = _product_loops(sch, plan, loops)
    threads = fused(sch, loops.threads)
    sch.parallel(threads)
    _input_loops(sch, plan, None if plan.ahead else threads)
    if dot is None:
        innermost(sch, sch.decompose_reduction(sch.get_sblock(found.products), reduction), 5)
    else:
        accumulate(sch, sch.get_sblock(found.products), reduction, 5, dot)


@dataclass(frozen=True)
class _Loops:
    """Loops of the transform back.

    Attributes:
        threads: what they share.
        group: around a group of output channels of a band.
        row: around a row of tiles of a block of channels.
        vectors: blocks of channels in registers.
    """

    threads: tuple[Any, ...]
    group: Any
    row: Any
    vectors: Any


def _output_loops(sch: Schedule, plan: WinogradPlan) -> _Loops:
    """A row of tiles is transformed back before the next one, columns and rows of a tile at once, in registers."""
    outputs, part = sch.get_sblock(plan.found.outputs), sch.get_sblock(plan.found.part)
    n, o, row, k, column, q, lane = sch.get_loops(outputs)
    rows, row = sch.split(row, [None, plan.box.rows], preserve_unit_iters=True)
    y0, y1 = sch.split(rows, sch.sample_perfect_tile(rows, 2, int(sch.get(rows).extent)), preserve_unit_iters=True)
    groups, inside, vectors = sch.sample_perfect_tile(o, 3, plan.box.vectors)
    o0, o1, o2 = sch.split(o, [groups, inside, vectors], preserve_unit_iters=True)
    register, lane = sch.split(lane, [None, plan.vector], preserve_unit_iters=True)
    outer = (n, o0, y0) if plan.ahead else (n, y0, o0)
    sch.reorder(*outer, o1, o2, y1, row, column, register, k, q, lane)
    sch.compute_at(part, register, preserve_unit_loops=True)
    sch.set_scope(part, 0, "local")
    innermost(sch, outputs, 3)
    innermost(sch, part, 3)
    _near(sch, plan, outputs, plan.found.columns * plan.found.size**2 * plan.found.lanes)
    return _Loops(outer if plan.ahead else outer[:2], outer[2], row, vectors)


def _product_loops(sch: Schedule, plan: WinogradPlan, loops: _Loops) -> Any:
    """The products of a group, element by element of a tile and box by box; returns the first loop of the reduction."""
    products = sch.get_sblock(plan.found.products)
    written = sch.cache_write(products, 0, "local")
    sch.compute_at(written, loops.group, preserve_unit_loops=True)
    o, i, j, y, x, lane = sch.get_loops(written)[-6:]
    o1, o2 = sch.split(o, [None, loops.vectors], preserve_unit_iters=True)
    y1, y2 = sch.split(y, [None, plan.box.rows], preserve_unit_iters=True)
    x0, x1 = sch.split(x, [None, plan.box.columns], preserve_unit_iters=True)
    register, lane = sch.split(lane, [None, plan.vector], preserve_unit_iters=True)
    sch.reorder(i, j, o1, y1, x0, y2, x1, o2, register, lane)
    sch.compute_at(products, x0, preserve_unit_loops=True)
    o, i, j, y, x, lane, c, k, *pair = sch.get_loops(products)[-8 - (plan.dot is not None) :]
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, 2, plan.cpu.unrolled_steps), preserve_unit_iters=True)
    register, lane = sch.split(lane, [None, plan.vector], preserve_unit_iters=True)
    sch.reorder(i, j, c, k0, k1, y, x, o, register, lane, *pair)
    sch.unroll(k1)
    if plan.dot is None:
        innermost(sch, products, 5)
    innermost(sch, written, 5)
    return c


def _input_loops(sch: Schedule, plan: WinogradPlan, threads: Any | None) -> None:
    """A row of tiles of one block of channels at a time.

    Args:
        threads: the parallel loop inside which each thread transforms what it needs; None for all of it beforehand.
    """
    found, inputs = plan.found, sch.get_sblock(plan.found.bits or plan.found.inputs)
    half = sch.get_sblock(found.half)
    if threads is not None:
        sch.compute_at(inputs, threads, preserve_unit_loops=True)
    n, row, i, j, c, column, lane = sch.get_loops(inputs)[-7:]
    register, lane = sch.split(lane, [None, plan.vector], preserve_unit_iters=True)
    sch.reorder(n, row, c, i, column, register, j, lane)
    if threads is None:
        c = sch.fuse(n, row, c)
        sch.parallel(c)
    if found.bits is not None:
        sch.unroll(j)
        rounding.within(sch, sch.get_sblock(found.inputs), j, lane)
    sch.compute_at(half, c, preserve_unit_loops=True)
    *_, i, pixel, lane = sch.get_loops(half)
    register, lane = sch.split(lane, [None, plan.vector], preserve_unit_iters=True)
    sch.reorder(pixel, register, i, lane)
    if found.bits is None:
        innermost(sch, inputs, 2)
    innermost(sch, half, 2)
    width = (found.columns * found.size + 2) * (found.size + 2) * found.lanes
    _near(sch, plan, half, width)
    if found.pad is not None:
        pad = sch.get_sblock(found.pad)
        sch.compute_at(pad, c, preserve_unit_loops=True)
        sch.vectorize(sch.get_loops(pad)[-1])
        _near(sch, plan, pad, width)


def _near(sch: Schedule, plan: WinogradPlan, block: Any, floats: int) -> None:
    """What a stage makes for the next one lies on the stack where it is small."""
    if plan.cpu.on_stack(floats):
        sch.set_scope(block, 0, "local")
