"""TIR expressions as functions on intervals, written once and asked for many inputs."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm.runtime import Object

from workers.tvm_backend.passes.value_ranges import intervals as iv
from workers.tvm_backend.passes.value_ranges.intervals import ANY, BOOLEAN, Interval

Code = Callable[["State"], Interval]
Operands = Sequence[Interval]

FLOATS = ("float", "bfloat")


class OutsideError(Exception):
    """An input takes a program outside of what it is defined for."""


@dataclass
class State:
    """What is known while a program runs on intervals.

    Attributes:
        variables, tensors: by the key of TVM's variable.
        reducing: the statement may take its operands in any order.
        fragile: an infinity or NaN in the marked input has no defined effect: it becomes a whole number, or steers
            what is run.
        unordered: a NaN in it may be lost, or not, by the order of a reduction's operands.
    """

    variables: dict[int, Interval] = field(default_factory=dict)
    tensors: dict[int, Interval] = field(default_factory=dict)
    reducing: bool = False
    fragile: bool = False
    unordered: bool = False


def key(node: Any) -> int:
    """Equal for one node of a living program."""
    return int(Object.__hash__(node))


def type_of(node: Any) -> str:
    """Element type by its name; empty where there is none."""
    return str(getattr(getattr(node, "ty", None), "dtype", ""))


def is_float(node: Any) -> bool:
    """True for a floating-point number or tensor."""
    return type_of(node).startswith(FLOATS)


def parts(node: Any) -> list[Any]:
    """The expressions that one is made of, its indices among them."""
    kind = type(node).__name__
    if kind == "TensorLoad":
        return list(node.indices)
    if kind == "Call":
        return list(node.args)
    if kind == "Select":
        return [node.condition, node.true_value, node.false_value]
    if kind == "Let":
        return [node.value, node.body]
    names = ("a", "b", "value")
    return [getattr(node, name) for name in names if isinstance(getattr(node, name, None), Object)]


def nodes(expression: Any) -> list[Any]:
    """An expression's nodes."""
    found, left = [], [expression]
    while left:
        node = left.pop()
        found.append(node)
        left += parts(node)
    return found


def loaded(expression: Any) -> set[int]:
    """Keys of the tensors that an expression reads."""
    return {key(node.source) for node in nodes(expression) if type(node).__name__ == "TensorLoad"}


def heeds_nan(expression: Any) -> bool:
    """True for an expression that asks whether something is a number."""
    return any(name_of(node) == "isnan" for node in nodes(expression))


def name_of(node: Any) -> str:
    """Name of a called operator; empty for anything else."""
    return str(getattr(node.op, "name", "")).rpartition(".")[2] if type(node).__name__ == "Call" else ""


def code_of(node: Any) -> Code:
    """A function from a state to the interval of the expression."""
    kind = type(node).__name__
    if kind in ("IntImm", "FloatImm"):
        constant = _constant(node.value)
        return lambda _: constant
    if kind == "Var":
        this = key(node)
        return lambda state: state.variables.get(this, ANY)
    if kind in BINARY:
        return _binary(node, kind)
    if kind in DIVISIONS and not is_float(node):
        return _whole_division(DIVISIONS[kind], code_of(node.a), code_of(node.b))
    special = {"Div": _real_division, "Select": _select, "Let": _let, "Cast": _cast, "TensorLoad": _load, "Not": _not}
    if kind in special:
        return special[kind](node)
    if kind == "Call":
        return _call(node)
    operands = [code_of(part) for part in parts(node)]
    return lambda state: iv.any_of(*(operand(state) for operand in operands))


BINARY: Mapping[str, Callable[[Interval, Interval], Interval]] = {
    "Add": iv.add,
    "Sub": iv.subtract,
    "Mul": iv.multiply,
    "Min": iv.minimum,
    "Max": iv.maximum,
    "And": iv.minimum,
    "Or": iv.maximum,
    "LT": iv.less,
    "LE": lambda a, b: iv.less(a, b, equal=True),
    "GT": lambda a, b: iv.less(b, a),
    "GE": lambda a, b: iv.less(b, a, equal=True),
    "EQ": iv.equals,
    "NE": lambda a, b: iv.negation(iv.equals(a, b)),
}
ORDERED = frozenset({"Min", "Max", "LT", "LE", "GT", "GE"})
"""What a NaN among a reduction's operands makes depend on their order."""
DIVISIONS: Mapping[str, Callable[[Interval, Interval], Interval]] = {
    "Div": iv.truncate_divide,
    "FloorDiv": iv.floor_divide,
    "Mod": lambda a, b: iv.remainder(a, b, floored=False),
    "FloorMod": lambda a, b: iv.remainder(a, b, floored=True),
}


def _constant(value: Any) -> Interval:
    number = int(value) if isinstance(value, int) else float(value)
    return Interval(number, number)


def _binary(node: Any, kind: str) -> Code:
    if kind == "Mul" and node.a.same_as(node.b):
        operand = code_of(node.a)
        return lambda state: iv.square(operand(state))
    function, a, b = BINARY[kind], code_of(node.a), code_of(node.b)
    if kind not in ORDERED or not is_float(node.a):
        return lambda state: function(a(state), b(state))

    def ordered(state: State) -> Interval:
        one, other = a(state), b(state)
        state.unordered |= state.reducing and (one.marked or other.marked)
        return function(one, other)

    return ordered


def _whole_division(function: Callable[[Interval, Interval], Interval], a: Code, b: Code) -> Code:
    def division(state: State) -> Interval:
        divisor = b(state)
        if divisor.marked and divisor.known and divisor.low <= 0 <= divisor.high:
            raise OutsideError("a divisor may be zero")
        return function(a(state), divisor)

    return division


def _real_division(node: Any) -> Code:
    a, b = code_of(node.a), code_of(node.b)
    return lambda state: iv.divide(a(state), b(state))


def _not(node: Any) -> Code:
    operand = code_of(node.a)
    return lambda state: iv.negation(operand(state))


def _select(node: Any) -> Code:
    return _choice(code_of(node.condition), code_of(node.true_value), code_of(node.false_value))


def _choice(condition: Code, yes: Code, no: Code) -> Code:
    def choice(state: State) -> Interval:
        truth = condition(state)
        if truth.low > 0:
            found = yes(state)
        elif truth.high <= 0:
            found = no(state)
        else:
            found = iv.union(yes(state), no(state))
        return found._replace(marked=True) if found.nan and truth.marked else found

    return choice


def _let(node: Any) -> Code:
    this, value, body = key(node.var), code_of(node.value), code_of(node.body)

    def bound(state: State) -> Interval:
        state.variables[this] = value(state)
        return body(state)

    return bound


def _cast(node: Any) -> Code:
    operand, given = code_of(node.value), is_float(node.value)
    if is_float(node):
        return operand
    if type_of(node) == "bool":
        return lambda state: BOOLEAN._replace(marked=operand(state).marked)
    if not given:
        return operand

    def whole(state: State) -> Interval:
        found = operand(state)
        state.fragile |= found.marked
        return iv.any_of(found) if found.nan else iv.monotone(math.trunc, found)

    return whole


def _load(node: Any) -> Code:
    this, found = key(node.source), checks(node.source, node.indices)

    def load(state: State) -> Interval:
        for check in found:
            check(state)
        return state.tensors.get(this, ANY)

    return load


def checks(tensor: Any, indices: Sequence[Any]) -> list[Callable[[State], None]]:
    """Tests of the indices that depend on data; those of loops alone are the compiler's."""
    found = []
    for index, extent in zip(indices, tensor.ty.shape, strict=False):
        size = getattr(extent, "value", None)
        if size is not None and (loaded(index) or any(type(node).__name__ == "Var" for node in nodes(index))):
            found.append(_inside(code_of(index), int(size)))
    return found


def _inside(index: Code, size: int) -> Callable[[State], None]:
    def inside(state: State) -> None:
        found = index(state)
        if not found.marked:
            return
        state.fragile = True
        if found.known and (found.low < 0 or found.high >= size):
            raise OutsideError("an index may be outside")

    return inside


DOMAINS: Mapping[str, Callable[[Interval], bool]] = {
    "sqrt": lambda a: a.low >= 0,
    "rsqrt": lambda a: a.low > 0,
    "log": lambda a: a.low > 0,
    "log2": lambda a: a.low > 0,
    "log10": lambda a: a.low > 0,
    "log1p": lambda a: a.low > -1,
    "acos": lambda a: a.low >= -1 and a.high <= 1,
    "asin": lambda a: a.low >= -1 and a.high <= 1,
    "acosh": lambda a: a.low >= 1,
    "atanh": lambda a: a.low > -1 and a.high < 1,
}
"""Where functions of a real number are defined."""
RISING: Mapping[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "log": lambda x: math.log(x) if x else -math.inf,
    "log1p": math.log1p,
    "exp": math.exp,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "nearbyint": round,
    "trunc": math.trunc,
    "tanh": math.tanh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "asin": math.asin,
    "atan": math.atan,
}
"""Functions that never fall."""
WITHIN: Mapping[str, tuple[float, float]] = {
    "sigmoid": (0, 1),
    "erf": (-1, 1),
    "sin": (-1, 1),
    "cos": (-1, 1),
    "isnan": (0, 0),
    "isinf": (0, 0),
    "isfinite": (1, 1),
    "acos": (0, math.pi),
}
"""Functions with bounds, whatever they are given; numbers are finite here."""


def _call(node: Any) -> Code:
    name, operands = name_of(node), [code_of(part) for part in node.args if isinstance(part, Object)]
    if name == "if_then_else":
        return _choice(*operands)
    if name == "likely":
        return operands[0]
    if name in ("abs", "fabs"):
        return lambda state: iv.magnitude(operands[0](state))
    if name == "pow":
        return _power(operands[0], operands[1])
    if name == "reinterpret" and type(node.args[0]).__name__ == "IntImm" and type_of(node) == "float32":
        constant = _constant(struct.unpack("<f", struct.pack("<I", int(node.args[0].value) & 0xFFFFFFFF))[0])
        return lambda _: constant
    if len(operands) == 1:
        return _function(name, operands[0])
    opaque = type(node.op).__name__ != "Op" or name.startswith(("call_", "tvm_"))

    def anything(state: State) -> Interval:
        found = iv.any_of(*(operand(state) for operand in operands))
        state.fragile |= opaque
        return found

    return anything


def _function(name: str, operand: Code) -> Code:
    domain, rising, within = DOMAINS.get(name), RISING.get(name), WITHIN.get(name)

    def function(state: State) -> Interval:
        a = operand(state)
        if domain is not None and a.marked and a.known and not domain(a):
            raise OutsideError(f"{name} is not defined there")
        if within is not None:
            return Interval(*within, a.marked)
        return iv.any_of(a) if rising is None or a.nan else iv.monotone(rising, a)

    return function


def _power(base: Code, exponent: Code) -> Code:
    def power(state: State) -> Interval:
        a, b = base(state), exponent(state)
        whole = b.low == b.high and float(b.low).is_integer()
        if a.marked and a.known and a.low < 0 and not whole:
            raise OutsideError("a power of a negative number")
        if b.marked and b.known and b.low < 0 and a.low <= 0 <= a.high:
            raise OutsideError("a negative power of zero")
        found = iv.any_of(a, b)
        return found._replace(low=0) if a.low >= 0 or (whole and b.low % 2 == 0) else found

    return power
