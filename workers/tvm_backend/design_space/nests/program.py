"""The blocks of a scheduled program: their loops, what they access, and how much they compute."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm.ir import Range
from tvm.s_tir import Schedule
from tvm.sym import Analyzer

from tunesmith.analysis.nest import Access, Block, Extent, Index, Kind, Loop, Product
from workers.tvm_backend import tir
from workers.tvm_backend.design_space.nests.arithmetic import conditions, work
from workers.tvm_backend.design_space.nests.errors import NotUnderstoodError
from workers.tvm_backend.design_space.nests.expressions import key, linear, steps_of, variables
from workers.tvm_backend.design_space.nests.lanes import Lanes, of_lanes
from workers.tvm_backend.design_space.nests.sources import Source, joined
from workers.tvm_backend.dot.intrinsics import BY_NAME, ROUNDING, Dot, RowDot
from workers.tvm_backend.dot.marks import MARK
from workers.tvm_backend.dot.matrix import MATRIX_BY_NAME, STAGES, MatrixDot

ENDLESS = 2**31
"""A loop of so many steps has no bound."""
KINDS = (Kind.SERIAL, Kind.PARALLEL, Kind.VECTOR, Kind.UNROLLED)
"""By the numbers of TVM's ``ForKind``."""
REDUCTION = 2
"""TVM's number of an axis that is summed over."""


@dataclass(frozen=True)
class RealLoop:
    """A loop of a program; ``variable`` is TVM's."""

    variable: Any
    number: int
    extent: int
    kind: Kind
    single: bool


@dataclass(frozen=True)
class Place:
    """Where a block stands.

    Attributes:
        dot: the instruction that its innermost loop is left to; None: there is none.
        pair: variable of the loop over what shares a lane, which is part of the instruction and none of ``loops``.
    """

    realize: Any
    loops: tuple[RealLoop, ...]
    dot: Dot | None = None
    pair: Any = None


class Axes:
    """The axes of a block.

    Attributes:
        number: the number of each axis, by the key of its variable.
    """

    def __init__(self, iter_vars: Sequence[Any]) -> None:
        self.number = {key(each.var): axis for axis, each in enumerate(iter_vars)}
        self._iter_vars = iter_vars

    def simple(self, index: Any) -> Any:
        """An index without what the axes' extents settle, as reshapes leave it."""
        return index if linear(index) is not None else self._analyzer.simplify(index)

    @functools.cached_property
    def _analyzer(self) -> Analyzer:
        found = Analyzer()
        for each in self._iter_vars:
            found.bind(each.var, each.dom)
        return found


class Program:
    """A scheduled function.

    Attributes:
        places: the program's blocks, in order.
        notes: the root's annotations that are numbers.
        buffers: that the blocks access.
        tensors: for each of these, whose memory it is; a tensor and its lanes are two buffers.
    """

    def __init__(self, body: Any) -> None:
        root = body.block
        self.notes: Mapping[str, int] = {
            str(name): value for name, value in tir.plain(root.annotations).items() if isinstance(value, int)
        }
        self.places = tuple(_walk(root.body, (), _Counter()))
        self._numbers: dict[tuple[tuple[int, ...], Lanes], int] = {}
        self._sources: list[Source] = []
        self.bare = sharing([self._bare(place) for place in self.places])
        self.buffers = tuple(source.buffer() for source in self._sources)
        self.tensors = tuple(key(source.tensors[0]) for source in self._sources)

    def _bare(self, place: Place) -> Block:
        """The block with the extents that its loops have here."""
        block = place.realize.block
        used = [{key(v) for v in variables(value)} for value in place.realize.iter_values]
        summed = [int(each.iter_type) == REDUCTION for each in block.iter_vars]
        loops = []
        for loop in place.loops:
            moved = [axis for axis, found in enumerate(used) if key(loop.variable) in found]
            strides = {axis: steps_of(place.realize.iter_values[axis], loop.variable) for axis in moved}
            axes = tuple(sorted(moved, key=lambda axis: -strides[axis]))
            loops.append(
                Loop(
                    loop.number,
                    _constant(loop.extent),
                    axes,
                    loop.kind,
                    any(summed[axis] for axis in axes),
                    loop.single,
                )
            )
        named = Axes(block.iter_vars)
        writes = [self._access(region, named) for region in block.writes]
        if not writes:
            raise NotUnderstoodError(f"{block.name_hint} writes nothing")
        mine = {write.buffer for write in writes} if any(summed) else set()
        pair, group = _axis_of_pair(place), place.dot.group if place.dot is not None else 1
        together = joined(block, partial(_indices, axes=named))
        reads = [Access(self._number_of(source), indices) for source, indices, _ in together]
        passed = [region for _, _, regions in together for region in regions]
        alone = [region for region in block.reads if not any(region.same_as(each) for each in passed)]
        reads += [self._access(region, named, pair, group) for region in alone]
        operations, calls = work(block) if place.dot is None else (place.dot.step_operations, 0.0)
        tested = [
            tuple(sorted({named.number[key(v)] for v in variables(each) if key(v) in named.number}))
            for each in conditions(block.body)
        ]
        return Block(
            str(block.name_hint),
            tuple(_number(each.dom.extent) for each in block.iter_vars),
            tuple(loops),
            writes[0],
            (*(read for read in reads if read.buffer not in mine), *writes[1:]),
            operations,
            calls,
            tuple(tested),
            any(summed),
            place.dot is not None and place.dot.is_single,
            isinstance(place.dot, MatrixDot),
        )

    def _access(self, region: Any, axes: Axes, pair: int | None = None, group: int = 1) -> Access:
        """An access; an instruction's operands are 32-bit lanes, of ``group`` values that ``pair`` goes through."""
        indices, lanes = _indices(region, axes), Lanes.NONE
        if pair is not None and indices:
            lanes, indices = of_lanes(indices, pair, group)
        return Access(self._number_of(Source((region.source,), lanes, group)), indices)

    def _number_of(self, source: Source) -> int:
        number = self._numbers.setdefault((tuple(map(key, source.tensors)), source.lanes), len(self._sources))
        if number == len(self._sources):
            self._sources.append(source)
        return number


def structure(blocks: Sequence[Block]) -> list[tuple[int, ...]]:
    """The numbers of each block's loops."""
    return [tuple(loop.number for loop in block.loops) for block in blocks]


def sharing(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks, their loops told which of them another block sums over."""
    summed = {loop.number for block in blocks for loop in block.loops if loop.reduction}
    told = (
        [replace(loop, shared=loop.number in summed and not loop.reduction) for loop in block.loops] for block in blocks
    )
    return tuple(replace(block, loops=tuple(loops)) for block, loops in zip(blocks, told, strict=True))


def read(sch: Schedule) -> Program:
    """The scheduled ``main``.

    Raises:
        NotUnderstoodError: it holds more than loops and plain blocks.
    """
    return Program(sch.mod["main"].body)


class _Counter:
    def __init__(self) -> None:
        self.next = 0

    def take(self) -> int:
        self.next += 1
        return self.next - 1


def _axis_of_pair(place: Place) -> int | None:
    """The axis of what shares a lane, of a block that is left to an instruction."""
    if place.pair is None:
        return None
    used = [{key(v) for v in variables(value)} for value in place.realize.iter_values]
    return next(at for at, found in enumerate(used) if key(place.pair) in found)


def _walk(statement: Any, loops: tuple[RealLoop, ...], counter: _Counter) -> Iterator[Place]:
    kind = type(statement).__name__
    if kind == "SeqStmt":
        for each in statement.seq:
            yield from _walk(each, loops, counter)
    elif kind == "For" and int(statement.kind) < len(KINDS):
        name = statement.annotations.get(MARK)
        if name is None:
            yield from _walk(statement.body, (*loops, _loop(statement, counter, around=loops)), counter)
        else:
            yield _marked(statement, loops, counter, str(name))
    elif kind == "SBlockRealize":
        yield Place(statement, loops)
    else:
        raise NotUnderstoodError(f"a {kind}")


def _loop(statement: Any, counter: _Counter, kind: Kind | None = None, around: Sequence[RealLoop] = ()) -> RealLoop:
    single = type(statement.body).__name__ != "SeqStmt"
    steps, own = _most(statement.extent, around), KINDS[int(statement.kind)]
    return RealLoop(statement.loop_var, counter.take(), steps, own if kind is None else kind, single)


def _most(steps: Any, around: Sequence[RealLoop]) -> int:
    """How many steps a loop has, or has at most where those ``around`` it say."""
    if not variables(steps):
        return _number(steps)
    analyzer = Analyzer()
    for loop in around:
        analyzer.bind(loop.variable, Range(0, loop.extent))
    most = int(analyzer.const_int_bound(steps).max_value)
    if most >= ENDLESS:
        raise NotUnderstoodError(f"{steps} has no bound")
    return most


def _marked(statement: Any, loops: tuple[RealLoop, ...], counter: _Counter, name: str) -> Place:
    """The block inside of a loop that an instruction takes the place of."""
    if isinstance(BY_NAME.get(name), RowDot):  # lanes, two rows, and what of the kernel the instruction goes through
        inside, body = [_loop(statement, counter, Kind.VECTOR)], statement.body
        while type(body).__name__ == "For":
            inside.append(_loop(body, counter, Kind.UNROLLED))
            body = body.body
        return Place(body, (*loops, *inside), BY_NAME[name])
    if name in BY_NAME:  # lanes, and what shares one
        lane, pair = _loop(statement, counter, Kind.VECTOR), statement.body
        return Place(pair.body, (*loops, lane), BY_NAME[name], pair.loop_var)
    if name == ROUNDING.name:
        return Place(statement.body, (*loops, _loop(statement, counter, Kind.VECTOR)), ROUNDING)
    rows, lane = _loop(statement, counter, Kind.UNROLLED), _loop(statement.body, counter, Kind.VECTOR)
    inner = statement.body.body
    if name in STAGES:
        return Place(inner, (*loops, rows, lane))
    steps = _loop(inner, counter, Kind.UNROLLED)
    made = (*loops, rows, lane, steps)
    return Place(inner.body.body, made, MATRIX_BY_NAME[name], inner.body.loop_var)


def _constant(value: int) -> Extent:
    return Extent.of(Product(value))


def _number(value: Any) -> int:
    found = getattr(value, "value", value)
    if not isinstance(found, int):
        raise NotUnderstoodError(f"{value} is no number")
    return found


def _indices(region: Any, axes: Axes) -> tuple[Index, ...]:
    return tuple(_index(each, axes) for each in region.region)


def _index(region: Any, axes: Axes) -> Index:
    """One dimension of an access; what is no sum of axes counts as moved by each of them one by one."""
    width = getattr(region.extent, "value", 1)
    expression, divide, modulo = axes.simple(region.min), 1, 0
    while type(expression).__name__ in ("FloorMod", "FloorDiv"):
        by = _number(expression.b)
        if type(expression).__name__ == "FloorDiv":
            divide *= by
        else:
            modulo = modulo or max(1, by // divide)
        expression = expression.a
    strides = linear(expression)
    if strides is None:
        strides = {key(v): 1 for v in variables(expression)}
    number = axes.number
    found = tuple(sorted((number[v], stride) for v, stride in strides.items() if v in number and stride))
    return Index(found, divide, modulo, int(width))
