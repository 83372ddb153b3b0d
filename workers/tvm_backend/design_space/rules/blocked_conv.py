"""Convolution of feature maps in blocks of channels: a tile of pixels times blocks of channels, kept in registers.

A vector of weights is loaded once for all pixels of the tile and a pixel's value is broadcast to all its blocks, over
the whole reduction (Georganas et al., "Anatomy of high-performance deep learning convolutions on SIMD architectures",
2018; Zhang et al., "High performance zero-memory overhead direct convolutions", 2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules import padding, rounding
from workers.tvm_backend.design_space.rules.base import Rule, Variant
from workers.tvm_backend.design_space.rules.contraction import axes_of, is_channel, only
from workers.tvm_backend.design_space.rules.convolution import TiledLoops, in_threads, operands
from workers.tvm_backend.design_space.rules.dots import accumulate, dot_of, place_widening, seen_by_tiles
from workers.tvm_backend.design_space.rules.epilogue import fold, foldable
from workers.tvm_backend.design_space.rules.matrix import TileLoops, blocks_of_tiles, dot_of_tiles, in_tiles
from workers.tvm_backend.design_space.rules.registers import (
    Tile,
    innermost,
    largest_divisor,
    pixel_tiles,
    split_in_two,
)
from workers.tvm_backend.design_space.rules.stages import variables_of
from workers.tvm_backend.dot.intrinsics import GROUPS, SUMS, Dot
from workers.tvm_backend.dot.matrix import MatrixDot, Rows
from workers.tvm_backend.dot.unit import COLUMNS, MAX_ROWS


class BlockedConvolution(Rule):
    """Applies to convolutions in blocked layout, with any kernel, stride, dilation and padding; groups fill blocks.

    Sketches: output channels outside, over the whole padded input; or bands of rows outside, each thread padding its
    own. Knobs: rows, columns, blocks and registers of a block in a tile, rows of a band, the kernel's columns that are
    unrolled. With few registers there are sketches of one or two numbers of columns, and rows and blocks are the knobs.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = find(sch)
        if found is None or found.dtype != SUMS.get(found.weights, "float32") or found.lanes % cpu.lanes():
            return
        if not foldable(sch, sch.get_sblock(found.block)):
            return
        dot = None if found.pair is None else dot_of(cpu, found.lanes, found.weights)
        if found.pair is not None and dot is None:
            return
        width, vectors = found.extents[found.width], found.extents[found.channel] * found.lanes // cpu.lanes()
        exact, least = dot is None and cpu.few_registers, cpu.dot_rows if dot is not None and dot.is_single else 1
        for limits, rows in pixel_tiles(seen_by_tiles(cpu, dot), width, vectors, exact, least):
            for bands in (False, True):
                yield partial(_schedule, plan=BlockedConvPlan(found, cpu.lanes(), limits, rows, bands, dot, exact))
        yield from _in_tiles(found, cpu)


def _in_tiles(found: BlockedConv, cpu: CpuModel) -> Iterator[Variant]:
    """With a matrix unit: pixels of a row are a tile's rows, and a block of channels its columns.

    The reduction of a tile is a block of input channels, or a row of the kernel where these are a single lane.
    """
    pixels, inner = largest_divisor(found.extents[found.width], MAX_ROWS), found.extents[found.inputs[1]]
    step, wide = found.steps
    if inner == 1 and wide == 1:
        kind, depth = Rows.WINDOW, found.extents[found.kernel[1]]
    else:
        kind, depth = Rows.BLOCK, inner
    matrix = dot_of_tiles(cpu, found.weights, pixels, depth, kind, step)
    if matrix is None or found.lanes % COLUMNS:
        return
    columns = found.extents[found.channel] * found.lanes // COLUMNS
    for block in blocks_of_tiles(found.extents[found.height], columns, whole=True):
        for bands in (False, True):
            limits = Tile(pixels, block.vectors)
            yield partial(_schedule, plan=BlockedConvPlan(found, cpu.lanes(), limits, block.scalars, bands, matrix))


@dataclass(frozen=True)
class BlockedConv:
    """``Y[n, o, y, x, l] += X[n, h(o, c), f(y, ky), g(x, kx), i] * W[o, c, ky, kx, i, l]``.

    h(o, c) is c where there is one group. Where g values of W share a lane, ``i`` is g i + s in X, and s is W's last
    axis: pairs of the bits of bfloat16, or quads of bytes.

    Attributes:
        block: name.
        batch, channel, height, width, lane: positions of Y's loops; a channel is a block of them.
        inputs: positions of the loops over blocks of input channels and over the channels of a block.
        kernel: extents of the loops over the kernel's rows and columns.
        extents: extents of all loops.
        dtype: data type of Y.
        weights: data type of W.
        pair: position of the loop over what shares a lane, s; None where there is none.
        steps: columns of X from one pixel of Y, and from one column of the kernel, to the next; 0: no fixed number.
    """

    block: str
    batch: int
    channel: int
    height: int
    width: int
    lane: int
    inputs: tuple[int, int]
    kernel: tuple[int, int]
    extents: tuple[int, ...]
    dtype: str
    weights: str = "float32"
    pair: int | None = None
    steps: tuple[int, int] = (0, 0)

    @property
    def lanes(self) -> int:
        """Channels of a block."""
        return self.extents[self.lane]


@dataclass(frozen=True)
class BlockedConvPlan:
    """What is fixed in a sketch.

    Attributes:
        vector: floats of a register.
        tile: limits of its columns and of its vectors of channels.
        rows: rows of a tile, at most.
        bands: bands of rows outside, channels inside.
        dot: how what shares a lane is multiplied; None where the operands are float32.
        exact: a tile has as many columns as its limit says, and the last one of a row what is left. Few registers hold
            no tiles that divide rows of 13 or 14 pixels.
    """

    found: BlockedConv
    vector: int
    tile: Tile
    rows: int
    bands: bool
    dot: Dot | None = None
    exact: bool = False

    @property
    def matrix(self) -> MatrixDot | None:
        """The instruction of a matrix unit, if it is one."""
        return self.dot if isinstance(self.dot, MatrixDot) else None

    @property
    def beside(self) -> int:
        """Tiles or vectors of a block of channels that are accumulated together; 1 where that is a knob."""
        if self.exact:
            return largest_divisor(self.found.lanes // self.vector, self.tile.vectors)
        return 1 if self.matrix is None else math.gcd(self.tile.vectors, self.found.lanes // COLUMNS)


def find(sch: Schedule) -> BlockedConv | None:
    """The workload's blocked convolution; None when there is none, or more than one."""
    return only(sch, match)


def match(sch: Schedule, handle: Any) -> BlockedConv | None:
    """A block as a convolution in blocked layout; None when it is something else."""
    parts = operands(sch, handle, rank=5)
    if parts is None or len(parts.variables) != len(parts.axes) + 3 or len(parts.axes) not in (6, 7):
        return None
    n, o, y, x, last = parts.out
    _, c, ky, kx, i, lane, *pairs = parts.axes
    weights = str(parts.weights.source.dtype)
    if bool(pairs) != (weights in GROUPS) or lane != last or {c, ky, kx, i, *pairs} & set(parts.out):
        return None
    number, group, _, column, inner = parts.source.indices
    of_channels = [parts.variables[o], parts.variables[c]]
    own_channel = [parts.variables[at] for at in (i, *pairs)]
    if (
        axes_of([number], parts.variables) != [n]
        or not is_channel(inner, own_channel, GROUPS.get(weights, 1))
        or not all(any(variable.same_as(own) for own in of_channels) for variable in variables_of(group))
    ):
        return None
    block = sch.get(handle)
    extents = tuple(int(each.dom.extent) for each in block.iter_vars)
    return BlockedConv(
        str(block.name_hint),
        n,
        o,
        y,
        x,
        lane,
        (c, i),
        (ky, kx),
        extents,
        str(block.body.buffer.dtype),
        weights,
        pairs[0] if pairs else None,
        (_step(column, parts.variables[x]), _step(column, parts.variables[kx])),
    )


def _step(index: Any, variable: Any) -> int:
    """By what an index moves with a variable; 0 where it is no sum that tells."""
    if index.same_as(variable):
        return 1
    if type(index).__name__ == "Add":
        return _step(index.a, variable) or _step(index.b, variable)
    if type(index).__name__ == "Mul" and index.a.same_as(variable):
        return int(getattr(index.b, "value", 0))
    return 0


def _schedule(sch: Schedule, plan: BlockedConvPlan) -> None:
    block = sch.get_sblock(plan.found.block)
    if plan.dot is not None:
        place_widening(sch, block, plan.dot)
    copies = padding.copies(sch, block)
    rounded = rounding.find(sch, block, plan.dot)
    if rounded is not None and _is_cut(sch, block, rounded):  # it gets a bound, which no instruction takes
        rounded = None
    last = fold(sch, block, rounded)
    if last is not None and _is_cut(sch, block, last):
        # TVM would inline what follows without a bound. A stage of its own gets one.
        sch.set_scope(block, 0, "local")
        written, last = sch.get_sblock(last), None
    else:
        written = sch.cache_write(block, 0, "local")
    moved = sch.cache_write(block, 0, "local") if plan.matrix else None
    loops = _tile(sch, block, plan)
    if moved is not None:
        sch.reverse_compute_at(moved, loops.columns, preserve_unit_loops=True)
    threads = in_threads(sch, written, last, loops)
    for name in copies:
        padding.place(sch, sch.get_sblock(name), plan.vector, threads if plan.bands else None)
    sch.unroll(loops.kernel)
    if rounded is not None:
        rounding.place(sch, written, rounded, loops.columns, 5)
    else:
        sch.split(sch.get_loops(written)[-1], [None, plan.vector], preserve_unit_iters=True)
        innermost(sch, written, 5)
    if plan.matrix is not None:
        *around, rows, _, _, _ = sch.get_loops(block)[-7:]
        in_tiles(sch, block, moved, 3, loops.reduction, TileLoops(tuple(around), rows), plan.matrix)
    else:
        accumulate(sch, block, loops.reduction, 5, plan.dot)


def _is_cut(sch: Schedule, block: Any, last: str) -> bool:
    """Whether what follows takes the first blocks of channels alone."""
    mine, its = (sch.get(each).writes[0].source.shape for each in (block, sch.get_sblock(last)))
    return len(mine) == len(its) and int(mine[1]) != int(its[1])


def _tile(sch: Schedule, block: Any, plan: BlockedConvPlan) -> TiledLoops:
    found, loops = plan.found, sch.get_loops(block)
    n, o, y, x, lane = (loops[at] for at in (found.batch, found.channel, found.height, found.width, found.lane))
    (c, i), (ky, kx) = ((loops[at] for at in two) for two in (found.inputs, found.kernel))
    pair = [] if found.pair is None else [loops[found.pair]]
    beside = plan.beside
    o0, o1 = sch.split(o, sch.sample_perfect_tile(o, 2, plan.tile.vectors // beside), preserve_unit_iters=True)
    *bands, y0, y1 = sch.split(
        y, sch.sample_perfect_tile(y, 3 if plan.bands else 2, plan.rows), preserve_unit_iters=True
    )
    vector = plan.vector if plan.dot is None else plan.dot.lanes
    register, lane = sch.split(lane, [None, vector], preserve_unit_iters=True)
    fixed = plan.exact or plan.matrix is not None
    l0, l1 = split_in_two(sch, register, beside if fixed else plan.tile.vectors, fixed)
    x0, x1 = split_in_two(sch, x, plan.matrix.rows if plan.matrix else plan.tile.scalars, fixed)
    window = plan.matrix is not None and plan.matrix.left_rows is Rows.WINDOW
    wide = found.extents[found.kernel[1]]
    if window:
        kx0, kx1 = sch.split(kx, [1, wide], preserve_unit_iters=True)
    else:  # with few registers LLVM would keep values for the kernel's next column, and put sums on the stack
        kx0, kx1 = split_in_two(sch, kx, 1 if plan.exact else wide, plan.exact)
    if plan.matrix is None:
        sch.reorder(n, *bands, o0, l0, y0, x0, c, ky, kx0, i, kx1, y1, x1, o1, l1, lane, *pair)
    else:
        outer, inner = (i, kx1) if window else (kx1, i)
        sch.reorder(n, *bands, o0, l0, y0, x0, c, ky, kx0, outer, y1, o1, l1, x1, lane, inner, *pair)
    return TiledLoops((n, *bands) if plan.bands else (n, o0, l0, y0), x0, c, kx0 if window else kx1)
