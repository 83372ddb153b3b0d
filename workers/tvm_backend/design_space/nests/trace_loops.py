"""What a trace says of loops: which part of which tile each came from, through splits and fusions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm.s_tir import Schedule

from tunesmith.analysis.nest import Factor, Product
from tunesmith.analysis.shape import Values
from tunesmith.types import Decision
from workers.tvm_backend import tir
from workers.tvm_backend.design_space.nests.expressions import key


@dataclass(frozen=True)
class Tag:
    """What the trace says of a loop's extent: a product, or, where that is not all of it, a part."""

    product: Product
    complete: bool

    def __mul__(self, other: Tag) -> Tag:
        a, b = self.product, other.product
        return Tag(Product(a.scale * b.scale, (*a.factors, *b.factors)), self.complete and other.complete)


UNKNOWN = Tag(Product(), False)


@dataclass
class Tags:
    """What a trace says.

    Attributes:
        loops: by the key of the loop's variable.
        tables: tables of the knobs that are categories.
        unroll: the category that says how much is unrolled.
    """

    loops: dict[int, Tag] = field(default_factory=dict)
    tables: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unroll: Factor | None = None

    @classmethod
    def of(cls, sch: Schedule) -> Tags:
        """Read a schedule's trace."""
        reader = _Reader()
        for instruction in sch.trace.insts:
            reader.take(instruction)
        tags = cls(tables=reader.tables, unroll=reader.unroll)
        for rv, tag in reader.made:
            try:
                loop = sch.get(rv)
            except Exception:  # gone: split, fused or inlined since; TVM's classes of errors differ
                continue
            tags.loops[key(loop.loop_var)] = tag
        return tags

    def values(self, decisions: Sequence[Decision]) -> Values:
        """The factors that decisions stand for, float64 [1] each."""
        found: dict[Factor, Any] = {}
        for knob, decision in enumerate(decisions):
            if isinstance(decision, tuple):
                found.update({Factor(knob, part): np.array([float(size)]) for part, size in enumerate(decision)})
            else:
                table = self.tables.get(knob)
                found[Factor(knob)] = np.array([float(table[decision] if table else decision)])
        return found


class _Reader:
    """Follows loops through splits and fusions."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, Tag]] = []
        self.tables: dict[int, tuple[int, ...]] = {}
        self.unroll: Factor | None = None
        self._numbers: dict[int, Product] = {}
        self._loops: dict[int, Tag] = {}
        self._knobs = 0

    def take(self, instruction: Any) -> None:
        kind = str(instruction.kind.name)
        if tir.is_knob(instruction):
            self._sample(kind, instruction)
        elif kind == "Split":
            self._split(instruction)
        elif kind == "Fuse":
            tag = Tag(Product(), True)
            for loop in instruction.inputs:
                tag = tag * self._loops.get(key(loop), UNKNOWN)
            self._make(instruction.outputs[0], tag)
        elif kind == "Annotate" and str(instruction.attrs[0]).startswith("meta_schedule.unroll"):
            found = self._number(instruction.inputs[1])
            self.unroll = found.factors[0] if found is not None and found.factors else None

    def _sample(self, kind: str, instruction: Any) -> None:
        if kind == "SampleCategorical":
            self.tables[self._knobs] = tuple(int(value) for value in tir.plain(instruction.attrs[0]))
        if kind != "SampleComputeLocation":
            for part, rv in enumerate(instruction.outputs):
                self._numbers[key(rv)] = Product(1, (Factor(self._knobs, part),))
        self._knobs += 1

    def _split(self, instruction: Any) -> None:
        loop, *wanted = list(instruction.inputs)[: 1 + len(instruction.outputs)]
        parts = [None if one is None else self._number(one) for one in wanted]
        whole = self._loops.get(key(loop), UNKNOWN)
        for rv, part in zip(instruction.outputs, parts, strict=True):
            if part is not None:
                self._make(rv, Tag(part, True))
            else:
                self._make(rv, _quotient(whole, [p for p in parts if p is not None]))

    def _number(self, value: Any) -> Product | None:
        number = getattr(value, "value", value)
        if isinstance(number, int):
            return Product(number)
        return self._numbers.get(key(value)) if not isinstance(value, (str, float)) else None

    def _make(self, rv: Any, tag: Tag) -> None:
        self._loops[key(rv)] = tag
        self.made.append((rv, tag))


def _quotient(whole: Tag, parts: Sequence[Product]) -> Tag:
    """What is left of a loop without some parts, where that is a product."""
    left, scale = list(whole.product.factors), whole.product.scale
    for part in parts:
        for factor in part.factors:
            if factor not in left:
                return UNKNOWN
            left.remove(factor)
        if scale % part.scale:
            return UNKNOWN
        scale //= part.scale
    return Tag(Product(scale, tuple(left)), whole.complete)
