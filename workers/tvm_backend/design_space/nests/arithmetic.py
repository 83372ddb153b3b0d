"""How much the body of a block computes."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tvm.runtime import Object

from workers.tvm_backend.design_space.nests.errors import NotUnderstoodError
from workers.tvm_backend.design_space.nests.expressions import key

ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "Select", "Cast"})
LIBRARY = frozenset(
    {
        "exp",
        "exp2",
        "exp10",
        "log",
        "log2",
        "log10",
        "log1p",
        "pow",
        "tanh",
        "sigmoid",
        "erf",
        "sin",
        "cos",
        "tan",
        "atan",
        "atan2",
        "sinh",
        "cosh",
        "round",
        "fmod",
    }
)
"""Intrinsics that end as calls of scalar functions."""
MAX_CASES = 64
"""Cases of a body that are counted one by one."""

Case = Mapping[int, int]
"""Values of some axes, by the keys of their variables."""
Counts = collections.Counter[str]


def work(block: Any) -> tuple[float, float]:
    """Arithmetic instructions and library calls of a run of a block.

    A body may choose by one of its axes what it computes, as a transform does which has its matrix in it. Such axes are
    unrolled, and nothing is left of the rest: it is the mean of what all cases take.
    """
    stores, cases = _stores(block.body), _cases(block)
    found = [_work(_count(store.value, case)) for case in cases for store in stores]
    operations, calls = (sum(each) / len(cases) for each in zip(*found, strict=True))
    return operations, calls


def conditions(body: Any) -> list[Any]:
    """The conditions under which values of a block's body are read, those of several parts one by one."""
    return [each for store in _stores(body) for each in _tested(store.value)]


def _work(found: Counts) -> tuple[float, float]:
    plain = sum(number for name, number in found.items() if name in ARITHMETIC)
    return float(plain - min(found["Mul"], found["Add"])), float(found["call"])  # multiply-adds


def _cases(block: Any) -> list[Case]:
    """The values of axes by which a body chooses; a single case without any where it has too many."""
    chosen = {key(each.a) for store in _stores(block.body) for each in _chosen(store.value)}
    axes = [each for each in block.iter_vars if key(each.var) in chosen]
    sizes = [getattr(each.dom.extent, "value", MAX_CASES + 1) for each in axes]
    if math.prod(sizes) > MAX_CASES:
        return [{}]
    names = [key(each.var) for each in axes]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*map(range, sizes))]


def _chosen(value: Any) -> Iterator[Any]:
    """Whether a variable is some number, wherever that decides which of two values is taken."""
    if type(value).__name__ == "Select" and _is_test(value.condition):
        yield value.condition
    for part in _parts(value):
        yield from _chosen(part)


def _is_test(condition: Any) -> bool:
    is_equality = type(condition).__name__ == "EQ" and type(condition.a).__name__ == "Var"
    return is_equality and isinstance(getattr(condition.b, "value", None), int)


def _stores(statement: Any) -> list[Any]:
    kind = type(statement).__name__
    if kind == "BufferStore":
        return [statement]
    if kind == "SeqStmt":
        return [store for each in statement.seq for store in _stores(each)]
    if kind == "IfThenElse":
        return _stores(statement.then_case)
    raise NotUnderstoodError(f"a block with a {kind}")


def _tested(value: Any) -> list[Any]:
    mine = _anded(value.args[0]) if _name(value) == "if_then_else" else []
    parts = [*_parts(value), *([value.condition] if type(value).__name__ == "Select" else [])]
    return [*mine, *(each for part in parts for each in _tested(part))]


def _anded(condition: Any) -> list[Any]:
    if type(condition).__name__ != "And":
        return [condition]
    return [*_anded(condition.a), *_anded(condition.b)]


def _name(value: Any) -> str:
    """The name of a called operator; empty for anything else."""
    return str(getattr(value.op, "name", "")).rpartition(".")[2] if type(value).__name__ == "Call" else ""


def _parts(value: Any) -> list[Any]:
    """The values that a value is made of, without indices and conditions."""
    kind = type(value).__name__
    if kind == "Call":
        return list(value.args)[1:] if _name(value) == "if_then_else" else list(value.args)
    if kind == "Select":
        return [value.true_value, value.false_value]
    if kind in ("TensorLoad", "Var"):
        return []
    names = ("a", "b", "value", "body")  # the last two of a formula with variables
    return [getattr(value, name) for name in names if isinstance(getattr(value, name, None), Object)]


def _taken(value: Any, case: Case) -> Any:
    """What is left of a value whose tests the case settles."""
    while type(value).__name__ == "Select" and _is_test(value.condition) and key(value.condition.a) in case:
        same = case[key(value.condition.a)] == value.condition.b.value
        value = value.true_value if same else value.false_value
    return value


def _constant(value: Any, case: Case) -> float | None:
    """The number that a value is; None where it is none."""
    value = _taken(value, case)
    if type(value).__name__ in ("FloatImm", "IntImm"):
        return float(value.value)
    if type(value).__name__ == "Mul" and 0.0 in (_constant(value.a, case), _constant(value.b, case)):
        return 0.0
    return None


def _count(value: Any, case: Case) -> Counts:
    """Nodes of a value by type, library calls as ``call``.

    Those of indices and conditions do not count. Nor does what a compiler removes, such as a factor of one.
    """
    value = _taken(value, case)
    kind, name, parts = type(value).__name__, _name(value), _parts(value)
    if name:
        kind = "call" if name in LIBRARY else "Div" if "sqrt" in name else name
    constants = [_constant(part, case) for part in parts]
    if kind == "Mul" and 0.0 in constants:
        return Counts()
    idle = {"Mul": (1.0, -1.0), "Add": (0.0,), "Sub": (0.0,)}.get(kind, ())
    found = Counts({kind: 1} if parts and not any(each in idle for each in constants) else {})
    several = [_count(part, case) for part in parts]
    if name == "if_then_else":  # one of the two is computed
        several = [max(several, key=lambda each: sum(each.values()))]
    for each in several:
        found.update(each)
    return found
