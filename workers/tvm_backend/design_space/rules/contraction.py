"""What a matmul-like block is: which of its loops are rows, columns, batch and reduction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tvm.s_tir import Schedule

from workers.tvm_backend.dot.bits import BITS, widened_load
from workers.tvm_backend.dot.codes import WEIGHTS

Found = TypeVar("Found")


@dataclass(frozen=True)
class Contraction:
    """``C[b, m, n] += A[b, m, k] * B[b, k, n]``: any number of axes of each kind, except for one column axis, C's last.

    Where g values of B share a lane, the last axis of the reduction is theirs: ``A[b, m, k, g]`` and
    ``B[n / panel, k, panel, g]`` or ``B[b, k, n, g]``, pairs of the bits of bfloat16 or quads of bytes.

    Attributes:
        block: name.
        batch, rows, column, reduction: positions of the loops.
        packed, other: which of the block's reads B and A are; B is the operand with the columns.
        panel: columns of a panel where B is ``[n / panel, k, panel]`` already, 0 where it is not.
        extents: extents of all loops.
        dtype: data type of C.
        weights: data type of B.
        pair: position of the loop over what shares a lane, which is none of ``reduction``; None where there is none.
    """

    block: str
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    column: int
    reduction: tuple[int, ...]
    packed: int
    other: int
    panel: int
    extents: tuple[int, ...]
    dtype: str
    weights: str = "float32"
    pair: int | None = None

    def size(self, loops: tuple[int, ...]) -> int:
        """Product of the extents of some loops."""
        return math.prod(self.extents[loop] for loop in loops)


def find(sch: Schedule) -> Contraction | None:
    """The workload's contraction; None when there is none, or more than one."""
    return only(sch, match)


def only(sch: Schedule, match: Callable[[Schedule, Any], Found | None]) -> Found | None:
    """What ``match`` finds in a workload's blocks; None when that is nothing, or more than one."""
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    found = [one for block in blocks if (one := match(sch, block)) is not None]
    return found[0] if len(found) == 1 else None


def match(sch: Schedule, handle: Any) -> Contraction | None:
    """A block as a contraction; None when it is something else."""
    block = sch.get(handle)
    loads = factors_of(block)
    if loads is None or len(sch.get_loops(handle)) != len(block.iter_vars):
        return None
    if loads[0].source.same_as(loads[1].source):  # the block reads it once, as a union of both regions
        return None
    variables = [each.var for each in block.iter_vars]
    out = axes_of(block.body.indices, variables)
    grouped = any(str(load.source.dtype) in (BITS, WEIGHTS) for load in loads)
    pair = in_lane(loads, variables) if grouped else None
    if grouped and pair is None:
        return None
    sides = [_operand(load, variables, pair) for load in loads]
    if not out or any(side is None for side in sides) or sum(out[-1] in side.axes for side in sides if side) != 1:
        return None
    a, b = sorted((side for side in sides if side), key=lambda side: out[-1] in side.axes)
    kinds = _kinds(len(variables), set(a.axes), set(b.axes), set(out))
    if kinds is None:
        return None
    kinds["k"] = [axis for axis in kinds["k"] if axis != pair]
    if kinds["n"] != [out[-1]] or not kinds["m"] or not kinds["k"] or a.panel:
        return None
    return Contraction(
        str(block.name_hint),
        tuple(kinds["b"]),
        tuple(kinds["m"]),
        out[-1],
        tuple(kinds["k"]),
        place_of(block.reads, b.source),
        place_of(block.reads, a.source),
        b.panel,
        tuple(int(each.dom.extent) for each in block.iter_vars),
        str(block.body.buffer.dtype),
        str(b.source.dtype),
        pair,
    )


def in_lane(loads: list[Any], variables: list[Any]) -> int | None:
    """The axis of what shares a lane, the last index of each operand; None where there is none."""
    last = [axes_of([load.indices[-1]], variables) for load in loads]
    return last[0][0] if last[0] and last[0] == last[1] else None


@dataclass(frozen=True)
class _Operand:
    """A factor: its buffer, the axes that its indices are, and columns of a panel (0: none)."""

    source: Any
    axes: tuple[int, ...]
    panel: int


def _operand(load: Any, variables: list[Any], pair: int | None) -> _Operand | None:
    plain = axes_of(load.indices, variables)
    if plain is not None:
        return _Operand(load.source, tuple(plain), 0)
    first, *middle, last = load.indices if pair is None else load.indices[:-1]
    inside = axes_of(middle, variables)
    if (type(first).__name__, type(last).__name__) != ("FloorDiv", "FloorMod") or inside is None:
        return None
    ends = axes_of([first.a, last.a], variables)
    sizes = [getattr(side, "value", None) for side in (first.b, last.b)]
    if ends is None or len(set(ends)) != 1 or len(ends) != 2 or sizes[0] is None or sizes[0] != sizes[1]:
        return None
    pairs = () if pair is None else (pair,)
    return _Operand(load.source, (ends[0], *inside, *pairs), int(sizes[0]))


def _kinds(count: int, a: set[int], b: set[int], out: set[int]) -> dict[str, list[int]] | None:
    """Axes by kind; None when one is of no kind."""
    names = {(True, True, True): "b", (True, False, True): "m", (False, True, True): "n", (True, True, False): "k"}
    kinds: dict[str, list[int]] = {name: [] for name in names.values()}
    for axis in range(count):
        name = names.get((axis in a, axis in b, axis in out))
        if name is None:
            return None
        kinds[name].append(axis)
    return kinds


def place_of(reads: Any, source: Any) -> int:
    """Which of a block's reads is of a buffer."""
    return next(at for at, region in enumerate(reads) if region.source.same_as(source))


def factors_of(block: Any) -> list[Any] | None:
    """The two loads of ``C += A * B``; None for another block."""
    store = block.body
    if block.init is None or type(store).__name__ != "BufferStore" or type(store.value).__name__ != "Add":
        return None
    terms = [store.value.a, store.value.b]
    rest = [t for t in terms if not (type(t).__name__ == "TensorLoad" and t.source.same_as(store.buffer))]
    if len(rest) != 1 or type(rest[0]).__name__ != "Mul":
        return None
    loads = []
    for side in (rest[0].a, rest[0].b):
        while type(side).__name__ == "Cast":
            side = side.value
        bits = widened_load(side)
        side = side if bits is None else bits
        if type(side).__name__ != "TensorLoad":
            return None
        loads.append(side)
    return loads


def axes_of(indices: Any, variables: list[Any]) -> list[int] | None:
    """Which iteration variable each index is; None when one is something else. Constants are left out."""
    found = []
    for index in indices:
        if type(index).__name__ == "IntImm":
            continue
        place = next((i for i, variable in enumerate(variables) if variable.same_as(index)), None)
        if place is None:
            return None
        found.append(place)
    return found


def is_channel(index: Any, variables: list[Any], group: int) -> bool:
    """Whether an index is a channel's variable, or ``group channel + s`` where so many share a lane."""
    if len(variables) == 1:
        return bool(variables[0].same_as(index))
    if type(index).__name__ != "Add" or type(index.a).__name__ != "Mul":
        return False
    channel, pair = variables
    return channel.same_as(index.a.a) and getattr(index.a.b, "value", 0) == group and pair.same_as(index.b)
