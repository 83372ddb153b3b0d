"""A workload as a sequence of stages: blocks whose loops are their axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm.ir import Call, TensorLoad, Var
from tvm.s_tir import Schedule
from tvm.tirx import BufferStore, IntImm, IterVar

from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.codes import CODES


@dataclass(frozen=True)
class Stage:
    """One block under the root.

    Attributes:
        name: name of the block.
        spatial, reduction: extents of its axes, in order; the spatial ones come first.
        block: TVM's object.
        consumers: names of the blocks that read what it writes; none for an output.
    """

    name: str
    spatial: tuple[int, ...]
    reduction: tuple[int, ...]
    block: Any
    consumers: tuple[str, ...]

    @property
    def variables(self) -> list[Any]:
        """Variables of the axes, in order."""
        return [each.var for each in self.block.iter_vars]

    @property
    def in_lanes(self) -> bool:
        """It reads and writes float32, the bits of bfloat16 and codes alone, for each 32-bit lane one value."""
        return all(
            str(tensor.dtype) in ("float32", BITS, CODES)
            for tensor in (self.block.writes[0].source, *(load.source for load in self.loads()))
        )

    def loads(self) -> list[Any]:
        """Everything that it reads, but its own result, in the order of the program."""
        found: list[Any] = []
        tvm_ffi.structural_walk(self.block.body, (TensorLoad, found.append))
        own = self.block.writes[0].source
        return [load for load in found if not load.source.same_as(own)]

    def axes_of(self, expression: Any) -> set[int]:
        """Positions of the axes that an index depends on, without those of extent one."""
        extents, found = (*self.spatial, *self.reduction), set()
        for variable in variables_of(expression):
            found |= {at for at, own in enumerate(self.variables) if own.same_as(variable) and extents[at] > 1}
        return found


def variables_of(expression: Any) -> list[Any]:
    """Every variable in an expression."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (Var, found.append))
    return found


def size(expression: Any) -> int:
    """Loads, operations and constants of an expression."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (object, found.append))
    return len(found)


def plain_size(expression: Any) -> int:
    """The size of an expression without its indices and conditions."""
    loads: list[Any] = []
    tvm_ffi.structural_walk(expression, (TensorLoad, loads.append))
    indices = [index for load in loads for index in load.indices]
    return size(expression) - sum(map(size, [*indices, *conditions(expression)]))


def conditions(expression: Any) -> list[Any]:
    """The conditions by which one of two values is computed."""
    calls: list[Any] = []
    tvm_ffi.structural_walk(expression, (Call, calls.append))
    return [each.args[0] for each in calls if str(getattr(each.op, "name", "")).endswith("if_then_else")]


def find(sch: Schedule) -> list[Stage] | None:
    """The workload's stages in the order of the program; None when some block is not simple or there is not one output.

    Simple is a block that stores one value at the place that its spatial axes name; its loops are its axes one by one,
    of fixed extents, spatial ones first.
    """
    root = sch.get_sblock("root")
    found = []
    for handle in sch.get_child_blocks(root):
        stage = _stage(sch, handle)
        if stage is None:
            return None
        found.append(stage)
    outputs = [str(sch.get(each).name_hint) for each in sch.get_output_blocks(root)]
    if not found or outputs != [found[-1].name] or any(not stage.consumers for stage in found[:-1]):
        return None
    return found if len({stage.name for stage in found}) == len(found) else None


def _stage(sch: Schedule, handle: Any) -> Stage | None:
    block, loops = sch.get(handle), [sch.get(loop) for loop in sch.get_loops(handle)]
    kinds = [int(each.iter_type) for each in block.iter_vars]
    extents = [each.dom.extent for each in block.iter_vars]
    if not isinstance(block.body, BufferStore) or len(block.writes) != 1:
        return None
    if (
        len(loops) != len(kinds)
        or not all(isinstance(e, IntImm) for e in extents)
        or any(int(loop.extent) != int(e) for loop, e in zip(loops, extents, strict=True))
        or any(kind not in (IterVar.DataPar, IterVar.CommReduce) for kind in kinds)
        or kinds != sorted(kinds)
    ):
        return None
    cut, places = kinds.count(IterVar.DataPar), block.body.indices
    if len(places) != cut or not all(at.same_as(each.var) for at, each in zip(places, block.iter_vars, strict=False)):
        return None
    sizes = tuple(int(extent) for extent in extents)
    consumers = tuple(str(sch.get(each).name_hint) for each in sch.get_consumers(handle))
    return Stage(str(block.name_hint), sizes[:cut], sizes[cut:], block, consumers)


def fused(sch: Schedule, loops: Sequence[Any]) -> Any:
    """Several loops as one."""
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def chunked(sch: Schedule, loops: Sequence[Any]) -> tuple[list[Any], Any]:
    """Some loops in chunks, the size of which is a knob: the loops outside of a chunk, and the one inside.

    Only the longest is divided. A chunk of fused loops could cross the end of one of them, and what is computed for it
    would be a box that is larger than the chunk.
    """
    longest = max(range(len(loops)), key=lambda at: int(sch.get(loops[at]).extent))
    factors = sch.sample_perfect_tile(loops[longest], 2, int(sch.get(loops[longest]).extent))
    outer, inner = sch.split(loops[longest], factors, preserve_unit_iters=True)
    return [*(loop for at, loop in enumerate(loops) if at != longest), outer], inner


def widest(extent: int, most: int) -> int:
    """The largest power of two that divides an extent, ``most`` at most."""
    return math.gcd(extent, 1 << (most.bit_length() - 1))


def inline(sch: Schedule, names: Iterable[str]) -> None:
    """Put stages into those that read them."""
    for name in names:
        sch.compute_inline(sch.get_sblock(name))


def unroll_and_vectorize(sch: Schedule, loops: Sequence[Any]) -> None:
    """The last loop in vectors, those around it unrolled; loops of one element are left alone."""
    *outer, lane = loops
    for loop in outer:
        sch.unroll(loop)
    if int(sch.get(lane).extent) > 1:
        sch.vectorize(lane)


def partial_results(sch: Schedule, block: Any, reduction: Any, counts: Iterable[int]) -> list[Any]:
    """Stages before a sum, each with fewer partial results than the one before; made of its last loop.

    Args:
        counts: how many partial results each of them leaves.
    """
    made = []
    for many in counts:
        _, lane = sch.split(reduction, [None, many], preserve_unit_iters=True)
        made.append(sch.rfactor(lane, -1))
        reduction = sch.get_loops(block)[-1]
    return made


def last_axis(sch: Schedule, block: Any) -> int:
    """The axis of a block along which what it writes lies together."""
    body = sch.get(block)
    written = body.writes[0].region[-1].min
    return next(at for at, each in enumerate(body.iter_vars) if each.var.same_as(written))
