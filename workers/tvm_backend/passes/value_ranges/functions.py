"""Whole programs on intervals: PrimFuncs, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.runtime import Object

from workers.tvm_backend.dot.arguments import known_values
from workers.tvm_backend.passes.value_ranges import expressions as ex
from workers.tvm_backend.passes.value_ranges import intervals as iv
from workers.tvm_backend.passes.value_ranges.expressions import Code, State
from workers.tvm_backend.passes.value_ranges.intervals import ANY, Interval

Step = Callable[[State], None]


@dataclass(frozen=True)
class Spot:
    """A parameter of a function: the key of its tensor, element type and shape."""

    key: int
    dtype: str
    shape: tuple[int, ...]


class Function:
    """A PrimFunc that can be run on intervals.

    Attributes:
        spots: the parameters, outputs last.
        partial: something in it is not defined for all inputs, or data say where it reads and writes.
        updated: numbers of the parameters that it reads and then writes.
        known: values to draw by the numbers of the parameters of which the program tells what they hold.
    """

    def __init__(self, function: Any) -> None:
        self.spots = tuple(_spot(each) for each in function.params)
        self._writer = _Writer()
        self._steps = self._writer.steps(function.body)
        self.partial = self._writer.partial
        self.updated = tuple(at for at, spot in enumerate(self.spots) if spot.key in self._writer.updated)
        known = known_values(function)
        self.known = {at: known[spot.key] for at, spot in enumerate(self.spots) if spot.key in known}

    def run(self, given: Sequence[Interval]) -> State:
        """The state after a run.

        Args:
            given: intervals of the first parameters; outputs need none.

        Raises:
            OutsideError: a marked value takes it outside of what it is defined for.
        """
        state = State(tensors={spot.key: each for spot, each in zip(self.spots, given, strict=False)})
        for step in self._steps:
            step(state)
        return state


def _spot(parameter: Any) -> Spot:
    shape = tuple(int(getattr(dim, "value", -1)) for dim in getattr(parameter.ty, "shape", ()))
    return Spot(ex.key(parameter), str(getattr(parameter.ty, "dtype", "")), shape)


class _Writer:
    """Writes the steps of one function."""

    def __init__(self) -> None:
        self.partial = False
        self.updated: set[int] = set()
        self._read: set[int] = set()
        self._stored: set[int] = set()

    def steps(self, statement: Any) -> list[Step]:
        """What a statement does."""
        kind = type(statement).__name__
        write = getattr(self, f"_{kind.lower()}", None)
        if write is not None:
            found: list[Step] = write(statement)
            return found
        inner = [getattr(statement, name, None) for name in ("body",)]
        return [step for each in inner if isinstance(each, Object) for step in self.steps(each)]

    def _code(self, expression: Any) -> Code:
        self._read |= ex.loaded(expression) - self._stored
        for node in ex.nodes(expression):
            kind, name = type(node).__name__, ex.name_of(node)
            whole = kind in ex.DIVISIONS and not ex.is_float(node) and not hasattr(node.b, "value")
            gathers = kind == "TensorLoad" and any(ex.loaded(index) for index in node.indices)
            self.partial |= whole or gathers or name in ex.DOMAINS or name in ("pow", "reinterpret")
        return ex.code_of(expression)

    def _seqstmt(self, statement: Any) -> list[Step]:
        return [step for each in statement.seq for step in self.steps(each)]

    def _bind(self, statement: Any) -> list[Step]:
        return [_variable(statement.var, self._code(statement.value))]

    _letstmt = _bind

    def _for(self, statement: Any) -> list[Step]:
        first, extent = self._code(statement.min), self._code(statement.extent)

        def index(state: State) -> Interval:
            low, count = first(state), extent(state)
            return Interval(low.low, low.high + count.high - 1, low.marked or count.marked)

        before = [_variable(statement.loop_var, index), *self._carried(statement.body)]
        return [*before, *self.steps(statement.body)]

    def _while(self, statement: Any) -> list[Step]:
        before = [*self._carried(statement.body), _steered(self._code(statement.condition))]
        return [*before, *self.steps(statement.body)]

    def _ifthenelse(self, statement: Any) -> list[Step]:
        condition = self._code(statement.condition)
        yes = self.steps(statement.then_case)
        no = self.steps(statement.else_case) if statement.else_case is not None else []

        def branch(state: State) -> None:
            truth = condition(state)
            state.fragile |= truth.marked
            for taken, possible in ((yes, truth.high > 0), (no, truth.low <= 0)):
                for step in taken if possible else ():
                    step(state)

        return [branch]

    def _evaluate(self, statement: Any) -> list[Step]:
        code = self._code(statement.value)

        def evaluate(state: State) -> None:
            code(state)

        return [evaluate]

    def _sblockrealize(self, statement: Any) -> list[Step]:
        block = statement.block
        found = [
            _variable(each.var, self._code(value))
            for each, value in zip(block.iter_vars, statement.iter_values, strict=True)
        ]
        if block.init is None:
            return [*found, *self.steps(block.body)]
        return [*found, *self.steps(block.init), *self._reduction(block.body)]

    def _reduction(self, body: Any) -> list[Step]:
        """Steps that run any number of times: what a bound moves towards has no bound there."""
        steps, targets = self.steps(body), {ex.key(store.buffer) for store in _stores(body)}
        aware = any(ex.heeds_nan(store.value) for store in _stores(body))

        def reduce(state: State) -> None:
            before = {target: state.tensors.get(target, ANY) for target in targets}
            state.reducing = not aware
            for step in steps:
                step(state)
            state.reducing = False
            for target, old in before.items():
                new = state.tensors.get(target, ANY)
                low = old.low if new.low >= old.low else -iv.INFINITY
                high = old.high if new.high <= old.high else iv.INFINITY
                state.tensors[target] = Interval(low, high, old.marked or new.marked)

        return [reduce]

    def _bufferstore(self, statement: Any) -> list[Step]:
        this, value = ex.key(statement.buffer), self._code(statement.value)
        self.partial |= any(ex.loaded(index) for index in statement.indices)
        tests = ex.checks(statement.buffer, statement.indices)
        stored_before = this in self._stored
        self._stored.add(this)
        self.updated |= {this} & self._read

        def store(state: State) -> None:
            for test in tests:
                test(state)
            found = value(state)
            if found.nan and found.marked:
                raise ex.OutsideError("the result is not a number")
            state.tensors[this] = iv.union(state.tensors.get(this, found), found) if stored_before else found

        return [store]

    def _carried(self, body: Any) -> list[Step]:
        """Tensors that a loop reads and writes outside of a reduction hold anything: the loop is run once here."""
        stores = _stores(body, reductions=False)
        read = {each for store in stores for each in ex.loaded(store.value)}
        targets = {ex.key(store.buffer) for store in stores} & read

        def forget(state: State) -> None:
            for target in targets:
                state.tensors[target] = iv.any_of(state.tensors.get(target, ANY))

        return [forget] if targets else []


def _variable(variable: Any, code: Code) -> Step:
    this = ex.key(variable)

    def assign(state: State) -> None:
        state.variables[this] = code(state)

    return assign


def _steered(condition: Code) -> Step:
    def steer(state: State) -> None:
        state.fragile |= condition(state).marked

    return steer


def _stores(statement: Any, *, reductions: bool = True) -> list[Any]:
    """The stores of a statement, those of blocks with an initial value only where ``reductions``."""
    kind = type(statement).__name__
    if kind == "BufferStore":
        return [statement]
    if kind == "SeqStmt":
        inner = list(statement.seq)
    elif kind == "IfThenElse":
        inner = [each for each in (statement.then_case, statement.else_case) if each is not None]
    elif kind == "SBlockRealize":
        inner = [statement.block.body] if reductions or statement.block.init is None else []
    else:
        inner = [statement.body] if isinstance(getattr(statement, "body", None), Object) else []
    return [store for each in inner for store in _stores(each, reductions=reductions)]
