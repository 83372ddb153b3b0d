"""What a thread of a GPU keeps in registers, and whether it can: what it cannot goes to memory, and is no use.

Most of what TVM's rules make of a product of float32 is such: on an H100, 16 random candidates took 2 to 1500 times
as long as the default schedule. Those compile the longest, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.runtime import Object
from tvm.s_tir import Schedule

from tunesmith.analysis.nest import Product
from tunesmith.targets import Target
from tunesmith.types import Decision
from workers.tvm_backend.design_space.nests.expressions import key
from workers.tvm_backend.design_space.nests.trace_loops import UNKNOWN, Tag, Tags

MAX_REGISTERS_PER_THREAD = 255
"""Registers that a thread can name, on every GPU since 2014."""
A_BLOCK = 65536
"""Registers that the threads of a block share, where the target does not say."""
BYTES = 4
"""Bytes of a register."""
LOW_EXTENT, HIGH_EXTENT = (f"meta_schedule.thread_extent_{end}_inclusive" for end in ("low", "high"))
"""How many threads TVM's rules allow a block that they tile."""
SPATIAL = 0
"""TVM's number of an axis that is not summed over."""

Loop = tuple[Any, int, str]
"""Variable, steps, and the index of threads that it is bound to, or nothing."""


@dataclass(frozen=True)
class Bounds:
    """What a sketch's decisions say of the threads before they are replayed, which takes a thousand times as long.

    Attributes:
        kept: for each block that keeps results in registers: how many, and registers of one.
        threads: for each block whose threads are limited: how many, the least and the most.
        shared: registers that the threads of a block share.
        whole: nothing is missing here because a loop had a single step, of which TVM leaves no trace in indices.
    """

    kept: tuple[tuple[Product, int], ...]
    threads: tuple[tuple[Product, int, int], ...]
    shared: int
    whole: bool

    @classmethod
    def of(cls, sch: Schedule, target: Target, decisions: Sequence[Decision]) -> Bounds:
        """Read a schedule whose trace was applied. What does not come from decisions alone is left out."""
        tags, whole = Tags.of(sch).loops, True
        kept: list[tuple[Product, int]] = []
        threads: list[tuple[Product, int, int]] = []
        for realize, loops in _blocks(sch.mod["main"].body, ()):
            notes = realize.block.annotations
            for _, each in _kept(realize):  # registers of tensor cores belong to a whole warp
                whole = whole and all(steps > 1 for _, steps, _ in loops)
                kept += [(made, each) for made in _product(_results(realize, loops), tags, decisions)]
                if LOW_EXTENT in notes and HIGH_EXTENT in notes:
                    limits = int(notes[LOW_EXTENT]), int(notes[HIGH_EXTENT])
                    indices = [loop for loop in loops if loop[-1].startswith("threadIdx")]
                    threads += [(made, *limits) for made in _product(indices, tags, decisions)]
        return cls(tuple(kept), tuple(threads), _shared(target), whole)

    def hold(self, decisions: Sequence[Decision]) -> bool:
        """False for a candidate that :func:`fits` or TVM would refuse once it is replayed."""
        numbers = [(_value(count, decisions), least, most) for count, least, most in self.threads]
        if any(not least <= number <= most for number, least, most in numbers):
            return False
        room = (
            min(MAX_REGISTERS_PER_THREAD, self.shared // max(1, *(number for number, *_ in numbers)))
            if numbers
            else MAX_REGISTERS_PER_THREAD
        )
        return all(_value(count, decisions) * each <= room for count, each in self.kept)


def fits(sch: Schedule, target: Target) -> bool:
    """Whether the results that each thread of a GPU's kernel keeps have room in its registers.

    What is not understood counts as none: the answer is then yes.
    """
    kept: dict[str, int] = {}
    threads: dict[str, int] = {}
    for realize, loops in _blocks(sch.mod["main"].body, ()):
        threads |= {tag: steps for _, steps, tag in loops if tag.startswith("threadIdx")}
        for name, each in _kept(realize):
            kept[name] = max(kept.get(name, 0), each * math.prod(steps for _, steps, _ in _results(realize, loops)))
    return sum(kept.values()) <= min(MAX_REGISTERS_PER_THREAD, _shared(target) // math.prod(threads.values()))


def _shared(target: Target) -> int:
    return int(target.to_json().get("registers_per_block", A_BLOCK))


def _kept(realize: Any) -> Iterator[tuple[str, int]]:
    """The buffers in registers that a block writes, and how many registers an element takes."""
    for region in realize.block.writes:
        if str(region.source.scope()) == "local":
            yield str(region.source.name), _registers(str(region.source.ty.dtype))


def _results(realize: Any, loops: Sequence[Loop]) -> list[Loop]:
    """The loops whose steps are as many different results that a block makes in one thread."""
    last = max((at for at, (*_, tag) in enumerate(loops) if tag.startswith("threadIdx")), default=-1)
    axes = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    spatial = {name for axis, value in axes if int(axis.iter_type) == SPATIAL for name in _names(value)}
    return [
        (var, steps, tag)
        for at, (var, steps, tag) in enumerate(loops)
        if (tag == "vthread.x" or (at > last and not tag)) and str(var.name) in spatial
    ]


def _product(loops: Sequence[Loop], tags: dict[int, Tag], decisions: Sequence[Decision]) -> Iterator[Product]:
    """The steps of loops as a product of decisions; nothing where it is more than that."""
    tag = Tag(Product(), True)
    for var, *_ in loops:
        tag = tag * tags.get(key(var), UNKNOWN)
    sizes = all(isinstance(decisions[factor.knob], tuple) for factor in tag.product.factors)
    if sizes and tag.complete and _value(tag.product, decisions) == math.prod(steps for _, steps, _ in loops):
        yield tag.product


def _value(product: Product, decisions: Sequence[Decision]) -> int:
    size = product.scale
    for factor in product.factors:
        decision = decisions[factor.knob]
        size *= decision[factor.part] if isinstance(decision, tuple) else decision
    return size


def _blocks(statement: Any, loops: tuple[Loop, ...]) -> Iterator[tuple[Any, tuple[Loop, ...]]]:
    """Blocks, and the loops around each, the outermost first."""
    kind = type(statement).__name__
    if kind == "SeqStmt":
        for each in statement.seq:
            yield from _blocks(each, loops)
    elif kind == "For":
        tag = "" if statement.thread_binding is None else str(statement.thread_binding.thread_tag)
        steps = getattr(statement.extent, "value", statement.extent)
        yield from _blocks(statement.body, (*loops, (statement.loop_var, int(steps), tag)))
    elif kind == "SBlockRealize":
        yield statement, loops
        yield from _blocks(statement.block.body, loops)


def _names(expression: Any) -> set[str]:
    """Names of the variables in an index."""
    if type(expression).__name__ == "Var":
        return {str(expression.name)}
    return {name for part in ("a", "b", "value") for name in _operand(getattr(expression, part, None))}


def _operand(part: Any) -> set[str]:
    return _names(part) if isinstance(part, Object) else set()


def _registers(dtype: str) -> int:
    return -(-(2 if dtype == "bfloat16" else np.dtype(dtype).itemsize) // BYTES)
