"""Indices of TVM: which variables they have, and how they move with these."""

from __future__ import annotations

from typing import Any

from tvm.runtime import Object


def key(node: Any) -> int:
    """Equal for the same node of a living program; ``==`` of TVM's expressions makes another expression."""
    return int(Object.__hash__(node))


def variables(expression: Any) -> list[Any]:
    """The variables of an index."""
    if type(expression).__name__ == "Var":
        return [expression]
    return [v for name in ("a", "b", "value") for v in variables_of(expression, name)]


def variables_of(expression: Any, name: str) -> list[Any]:
    """The variables of one operand; a number has none."""
    operand = getattr(expression, name, None)
    return variables(operand) if isinstance(operand, Object) else []


def linear(expression: Any) -> dict[int, int] | None:
    """Strides by variable of a sum of multiples; None for anything else. What is added does not matter."""
    kind = type(expression).__name__
    if kind == "Var":
        return {key(expression): 1}
    if kind == "IntImm" or isinstance(expression, int):
        return {}
    if kind == "Cast":
        return linear(expression.value)
    if kind in ("Add", "Sub"):
        a, b = linear(expression.a), linear(expression.b)
        if a is None or b is None:
            return None
        sign = 1 if kind == "Add" else -1
        return {v: a.get(v, 0) + sign * b.get(v, 0) for v in {*a, *b}}
    if kind == "Mul" and hasattr(expression.b, "value"):
        a = linear(expression.a)
        return None if a is None else {v: stride * int(expression.b.value) for v, stride in a.items()}
    return None


def steps_of(expression: Any, variable: Any) -> float:
    """Steps of a loop until an index that it moves goes on, if it is ``variable // steps`` or digits of that.

    They are less than one where a step moves it by several.
    """
    kind, number = type(expression).__name__, getattr(getattr(expression, "b", None), "value", 0)
    if kind in ("FloorDiv", "Mul") and number and any(key(v) == key(variable) for v in variables(expression.a)):
        own = steps_of(expression.a, variable)
        return own * int(number) if kind == "FloorDiv" else own / int(number)
    operands = [getattr(expression, name, None) for name in ("a", "b", "value")]
    moved = [
        each for each in operands if isinstance(each, Object) and any(key(v) == key(variable) for v in variables(each))
    ]
    return min((steps_of(each, variable) for each in moved), default=1.0)
