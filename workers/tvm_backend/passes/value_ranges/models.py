"""The inputs of a prepared model: what may be drawn for them so that every program in it is defined."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

import tvm
from tvm import relax

from tunesmith.types import TensorSpec, Values
from workers.tvm_backend import tir
from workers.tvm_backend.passes import extract_tasks
from workers.tvm_backend.passes.value_ranges import intervals as iv
from workers.tvm_backend.passes.value_ranges.expressions import FLOATS, OutsideError, key
from workers.tvm_backend.passes.value_ranges.functions import Function
from workers.tvm_backend.passes.value_ranges.intervals import ANY, Interval
from workers.tvm_backend.passes.value_ranges.search import REAL, WHOLE, drawn, range_of, usual

log = logging.getLogger("tunesmith.measure")
MAX_CALLS = 64
"""Calls up to which the range of a real input is searched, which runs them a hundred times."""
CONSTANT_ELEMENTS = 1 << 16
"""Larger constants hold anything."""
VIEWS = frozenset(f"relax.{name}" for name in ("reshape", "flatten", "expand_dims", "squeeze", "memory.view"))
"""Operators that leave a tensor's values as they are."""
Place = Union[tuple[int, int], Interval]
"""A tensor: the variable that it is bound to and its number there, or the interval of a constant."""


@dataclass(frozen=True)
class Call:
    """A call of a PrimFunc, or of anything else (``function`` None).

    Attributes:
        takes, makes: tensors.
        whole: none that it makes is of floating point.
    """

    function: Function | None
    takes: tuple[Place, ...]
    makes: tuple[Place, ...]
    whole: bool


@dataclass
class Run:
    """What a run of a model on intervals came to.

    Attributes:
        fragile: see ``State``; also where a marked value reaches what is no PrimFunc.
        outside: number of the last call that a marked value takes outside; None: there is none.
    """

    values: dict[Place, Interval] = field(default_factory=dict)
    fragile: bool = False
    outside: int | None = None


class Model:
    """The ``main`` of a prepared module as a list of calls.

    Attributes:
        inputs: the tensors that it takes, parameters last.
        calls: in order.
        branches: it holds more than a list of calls.
    """

    def __init__(self, mod: tvm.IRModule) -> None:
        self._mod = mod
        self._functions: dict[int, Function] = {}
        self._bound: dict[int, tuple[Place, ...]] = {}
        self.branches = False
        self.calls: list[Call] = []
        main = mod["main"]
        self.inputs: list[Place] = [(key(var), 0) for var in main.params]
        self._bound.update({key(var): ((key(var), 0),) for var in main.params})
        for block in main.body.blocks:
            for binding in block.bindings:
                self._bound[key(binding.var)] = self._places(binding.value, binding.var)

    def run(self, given: Mapping[Place, Interval], calls: Sequence[Call], *, stop: bool = False) -> Run:
        """Run calls on intervals; one that takes nothing marked is passed over.

        Args:
            stop: at the first call that a marked value takes outside.
        """
        run = Run(dict(given))
        for number, call in enumerate(calls):
            taken = [each if isinstance(each, Interval) else run.values.get(each, ANY) for each in call.takes]
            if not any(each.marked for each in taken):
                continue
            found = self._made(run, call, taken)
            if found is None:
                run.outside = number
                if stop:
                    break
                found = [iv.any_of(*taken)] * len(call.makes)
            run.values.update(zip(call.makes, found, strict=True))
        return run

    def whole_values(self, given: Mapping[Place, Interval]) -> dict[Place, Interval]:
        """The intervals of all tensors of whole numbers that only depend on such."""
        found = dict(given)
        for call in self.calls:
            if call.whole and call.function is not None:
                taken = [each if isinstance(each, Interval) else found.get(each, ANY) for each in call.takes]
                made = self._made(Run(), call, taken)
                found.update(zip(call.makes, made or (), strict=False))
        return found

    def reached(self, start: Place) -> list[Call]:
        """The calls that an input of whole numbers reaches by way of whole numbers."""
        places, found = {start}, []
        for call in self.calls:
            if not places.isdisjoint(call.takes):
                found.append(call)
                places |= set(call.makes) if call.whole else set()
        return found

    @staticmethod
    def _made(run: Run, call: Call, taken: Sequence[Interval]) -> list[Interval] | None:
        """What a call makes; None where it is outside of what it is defined for."""
        if call.function is None:
            run.fragile = True
            return [iv.any_of(*taken)] * len(call.makes)
        try:
            state = call.function.run(taken)
        except OutsideError:
            return None
        run.fragile |= state.fragile
        return [state.tensors.get(spot.key, ANY) for spot in call.function.spots[-len(call.makes) :]]

    def _places(self, value: Any, var: Any = None) -> tuple[Place, ...]:
        """The tensors of an expression; ``var`` is what it is bound to."""
        if isinstance(value, relax.Tuple):
            return tuple(place for each in value.fields for place in self._places(each))
        if isinstance(value, relax.TupleGetItem):
            found = self._places(value.tuple_value)
            return found[int(value.index) : int(value.index) + 1]
        if isinstance(value, tvm.ir.GenericConst):
            return (_constant(value),)
        if str(getattr(getattr(value, "op", None), "name", "")) in VIEWS:
            return self._places(value.args[0])
        if isinstance(value, relax.Call) and var is not None:
            return self._call(value, var)
        self.branches |= isinstance(value, relax.If)
        return self._bound.get(key(value), ())

    def _call(self, value: Any, var: Any) -> tuple[Place, ...]:
        kinds = var.ty.fields if isinstance(var.ty, relax.TupleType) else [var.ty]
        makes: tuple[Place, ...] = tuple((key(var), number) for number in range(len(kinds)))
        whole = not any(str(getattr(kind, "dtype", "")).startswith(FLOATS) for kind in kinds)
        function, operands = None, list(value.args)
        if str(getattr(value.op, "name", "")) == "relax.call_tir":
            function, operands = self._function(value.args[0]), operands[1:2]
        takes = tuple(place for each in operands for place in self._places(each))
        self.calls.append(Call(function, takes, makes, whole))
        return makes

    def _function(self, name: Any) -> Function:
        program = self._mod[name]
        if key(program) not in self._functions:
            self._functions[key(program)] = Function(program)
        return self._functions[key(program)]


def drawn_inputs(module: bytes) -> tuple[TensorSpec, ...]:
    """The inputs of a prepared module's ``main`` with the values to draw for them, as far as these are known."""
    mod = tir.load_module(module)
    specs = extract_tasks.inputs(mod)
    try:
        return input_values(mod, specs)
    except Exception:  # a model that is not understood is run on the usual values
        log.exception("values of inputs are not known")
        return specs


def input_values(mod: tvm.IRModule, specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """A model's inputs with the values to draw for them, as far as its programs say more than their types do."""
    model = Model(mod)
    places = model.inputs[: len(specs)]
    given = {place: usual(spec) for place, spec in zip(places, specs, strict=True)}
    found: list[Values | None] = [None] * len(specs)
    for at, (place, spec) in enumerate(zip(places, specs, strict=True)):
        if spec.dtype.startswith(WHOLE):
            found[at] = _search(model, given, place, spec, model.reached(place))
    real = [place for place, spec in zip(places, specs, strict=True) if spec.dtype.startswith(REAL)]
    outside = model.run(_marked(given, real), model.calls).outside
    if outside is not None and outside < MAX_CALLS:
        for at, (place, spec) in enumerate(zip(places, specs, strict=True)):
            if place in real:
                found[at] = _search(model, given, place, spec, model.calls[: outside + 1])
    end = model.run(_marked(given, real), model.calls)
    special = not (model.branches or end.fragile or end.outside is not None)
    return tuple(
        replace(spec, values=_with_special(given[place], values) if special and place in real else values)
        for place, spec, values in zip(places, specs, found, strict=True)
    )


def _search(
    model: Model, given: dict[Place, Interval], place: Place, spec: TensorSpec, calls: Sequence[Call]
) -> Values | None:
    """The values to draw for one input, which are those of ``given`` from then on."""
    if not any(call.function is not None and call.function.partial for call in calls):
        return None
    whole = spec.dtype.startswith(WHOLE)
    known = model.whole_values(given)

    def allowed(value: float) -> bool:
        return model.run({**known, place: Interval(value, value, True)}, calls, stop=True).outside is None

    values = drawn(range_of(allowed, whole=whole), spec.dtype)
    if values is not None:
        given[place] = Interval(values.low, values.high)
    return values


def _marked(given: Mapping[Place, Interval], places: Sequence[Place]) -> dict[Place, Interval]:
    return {place: each._replace(marked=place in places) for place, each in given.items()}


def _with_special(usually: Interval, values: Values | None) -> Values:
    low, high = (usually.low, usually.high) if values is None else (values.low, values.high)
    return Values(low, high, special=True)


def _constant(value: Any) -> Interval:
    if not isinstance(value.value, tvm.runtime.Tensor):
        return ANY  # a type, or a text
    array = value.value.numpy()
    if not 0 < array.size <= CONSTANT_ELEMENTS or array.dtype.kind not in "iufb":
        return ANY
    low, high = array.min(), array.max()
    return Interval(low.item(), high.item()) if low == low else ANY
