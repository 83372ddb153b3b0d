"""What a convolution-like block is: an output, weights whose axes are plain, and an input that may be read anyhow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.s_tir import Schedule

from workers.tvm_backend.rules.contraction import axes_of, factors_of, place_of


@dataclass(frozen=True)
class Convolution:
    """``Y[n, o, y, x] += X[n, i, f(y, ky), g(x, kx)] * W[o, i, ky, kx]``.

    Attributes:
        block: name.
        batch, channel, height, width: positions of Y's loops.
        inputs, kernel: positions of the reduction's loops: input channels, and the kernel's rows and columns.
        weights, source: which of the block's reads W and X are.
        extents: of all loops.
        dtype: of Y.
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


def find(sch: Schedule) -> Convolution | None:
    """The workload's convolution; None when there is none, or more than one."""
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    found = [one for block in blocks if (one := match(sch, block)) is not None]
    return found[0] if len(found) == 1 else None


def match(sch: Schedule, handle: Any) -> Convolution | None:
    """A block as a convolution of one group in NCHW; None when it is something else."""
    block = sch.get(handle)
    loads = factors_of(block)
    if loads is None or len(sch.get_loops(handle)) != len(block.iter_vars) or len(block.iter_vars) != 7:
        return None
    variables = [each.var for each in block.iter_vars]
    out = axes_of(block.body.indices, variables)
    plain = [axes_of(load.indices, variables) for load in loads]
    places = [at for at, axes in enumerate(plain) if axes is not None and len(axes) == 4]
    if out is None or len(out) != 4 or len(places) != 1:
        return None
    weights, source = loads[places[0]], loads[1 - places[0]]
    axes = plain[places[0]]
    assert axes is not None
    if axes[0] != out[1] or set(axes[1:]) & set(out) or len(source.indices) != 4:
        return None
    head = axes_of(source.indices[:2], variables)
    if head != [out[0], axes[1]]:
        return None
    return Convolution(
        str(block.name_hint), out[0], out[1], out[2], out[3], axes[1], (axes[2], axes[3]),
        place_of(block.reads, weights.source), place_of(block.reads, source.source),
        tuple(int(each.dom.extent) for each in block.iter_vars), str(block.body.buffer.dtype),
    )  # fmt: skip
