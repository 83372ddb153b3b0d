"""What a convolution-like block is: an output, weights whose axes are plain, and an input that may be read anyhow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.s_tir import Schedule

from workers.tvm_backend.design_space.rules.contraction import axes_of, factors_of, only, place_of


@dataclass(frozen=True)
class Convolution:
    """``Y[n, o, y, x] += X[n, i, f(y, ky), g(x, kx)] * W[o, i, ky, kx]``.

    Attributes:
        block: name.
        batch, channel, height, width: positions of Y's loops.
        inputs, kernel: positions of the reduction's loops: input channels, and the kernel's rows and columns.
        weights, source: which of the block's reads W and X are.
        extents: extents of all loops.
        dtype: data type of Y.
    """

    block: str
    batch: int
    channel: int
    height: int
    width: int
    inputs: int
    kernel: tuple[int, int]
    weights: int
    source: int
    extents: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Operands:
    """The block of a convolution, taken apart.

    Attributes:
        variables: the block's axes.
        out: which of them Y's indices are.
        axes: which of them W's indices are, its output channel first.
        weights, source: the loads of W and X.
    """

    variables: list[Any]
    out: list[int]
    axes: list[int]
    weights: Any
    source: Any


def operands(sch: Schedule, handle: Any, rank: int) -> Operands | None:
    """A block that may be a convolution; None for one that is none.

    Args:
        rank: rank of Y and X. W has the reduction's axes and those that it shares with Y, and no others.
    """
    block = sch.get(handle)
    loads = factors_of(block)
    if loads is None or len(sch.get_loops(handle)) != len(block.iter_vars):
        return None
    variables = [each.var for each in block.iter_vars]
    out = axes_of(block.body.indices, variables)
    plain = [axes_of(load.indices, variables) for load in loads]
    # Y has three axes that W has not: the image's number, row and column.
    places = [at for at, axes in enumerate(plain) if axes is not None and len(axes) == len(variables) - 3]
    if out is None or len(out) != rank or len(places) != 1:
        return None
    weights, source = loads[places[0]], loads[1 - places[0]]
    axes = plain[places[0]]
    if axes is None or axes[0] != out[1] or len(source.indices) != rank:
        return None
    return Operands(variables, out, axes, weights, source)


def find(sch: Schedule) -> Convolution | None:
    """The workload's convolution; None when there is none, or more than one."""
    return only(sch, match)


def match(sch: Schedule, handle: Any) -> Convolution | None:
    """A block as a convolution of one group in NCHW; None when it is something else."""
    parts = operands(sch, handle, rank=4)
    if parts is None or len(parts.variables) != 7 or set(parts.axes[1:]) & set(parts.out):
        return None
    n, o, y, x = parts.out
    _, i, ky, kx = parts.axes
    if axes_of(parts.source.indices[:2], parts.variables) != [n, i]:
        return None
    block = sch.get(handle)
    return Convolution(
        str(block.name_hint),
        n,
        o,
        y,
        x,
        i,
        (ky, kx),
        place_of(block.reads, parts.weights.source),
        place_of(block.reads, parts.source.source),
        tuple(int(each.dom.extent) for each in block.iter_vars),
        str(block.body.buffer.dtype),
    )


@dataclass(frozen=True)
class TiledLoops:
    """Loops of a tiled convolution.

    Attributes:
        outer: loops that threads share.
        columns: the innermost around a tile.
        reduction: the first of the reduction.
        kernel: the unrolled one of the kernel.
    """

    outer: tuple[Any, ...]
    columns: Any
    reduction: Any
    kernel: Any


def in_threads(sch: Schedule, written: Any, last: str | None, loops: TiledLoops) -> Any:
    """Write each tile as soon as it is computed, and share the outer loops among threads; returns the parallel loop.

    Args:
        written: the stage that writes a tile.
        last: what follows element by element and is computed with it; None where nothing follows.
    """
    if last is not None:
        sch.reverse_compute_inline(sch.get_sblock(last))
    sch.reverse_compute_at(written, loops.columns, preserve_unit_loops=True)
    threads = sch.fuse(*loops.outer)
    sch.parallel(threads)
    return threads
