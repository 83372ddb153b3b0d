"""What a matmul-like block is: which of its loops are rows, columns, batch and reduction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm.s_tir import Schedule


@dataclass(frozen=True)
class Contraction:
    """``C[b, m, n] += A[b, m, k] * B[b, k, n]``: any number of axes of each kind, but one column axis, C's last.

    Attributes:
        block: name.
        batch, rows, column, reduction: positions of the loops.
        packed, other: which of the block's reads B and A are; B is the operand with the columns.
        extents: of all loops.
        dtype: of C.
    """

    block: str
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    column: int
    reduction: tuple[int, ...]
    packed: int
    other: int
    extents: tuple[int, ...]
    dtype: str

    def size(self, loops: tuple[int, ...]) -> int:
        """Product of the extents of some loops."""
        return math.prod(self.extents[loop] for loop in loops)


def find(sch: Schedule) -> Contraction | None:
    """The workload's contraction; None when there is none, or more than one."""
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    found = [contraction for block in blocks if (contraction := match(sch, block)) is not None]
    return found[0] if len(found) == 1 else None


def match(sch: Schedule, handle: Any) -> Contraction | None:
    """A block as a contraction; None when it is something else."""
    block = sch.get(handle)
    loads = _factors(block)
    if loads is None or len(sch.get_loops(handle)) != len(block.iter_vars):
        return None
    variables = [each.var for each in block.iter_vars]
    first, second, out = (_axes(each.indices, variables) for each in (*loads, block.body))
    if first is None or second is None or not out or (out[-1] in first) == (out[-1] in second):
        return None
    if out[-1] in first:
        first, second, loads = second, first, loads[::-1]
    kinds = _kinds(len(variables), set(first), set(second), set(out))
    if kinds is None or kinds["n"] != [out[-1]] or not kinds["m"] or not kinds["k"]:
        return None
    other, packed = (_place(block.reads, load.source) for load in loads)
    return Contraction(
        str(block.name_hint), tuple(kinds["b"]), tuple(kinds["m"]), out[-1], tuple(kinds["k"]), packed, other,
        tuple(int(each.dom.extent) for each in block.iter_vars), str(block.body.buffer.dtype),
    )  # fmt: skip


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


def _place(reads: Any, source: Any) -> int:
    return next(at for at, region in enumerate(reads) if region.source.same_as(source))


def _factors(block: Any) -> list[Any] | None:
    """The two loads of ``C += A * B``."""
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
        if type(side).__name__ != "TensorLoad":
            return None
        loads.append(side)
    return loads


def _axes(indices: Any, variables: list[Any]) -> list[int] | None:
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
