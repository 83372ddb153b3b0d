"""What importers leave in a function that no layout could pass: bounds lowered too early, dropouts, tuples of parts."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, s_tir

from workers.tvm_backend.passes.layout.expressions import Binding, map_shape, operands, operator


def simplified(module: tvm.IRModule, bindings: list[Binding], outputs: relax.Expr) -> list[Binding]:
    """The bindings that ``outputs`` need.

    Functions that bound a feature map by a constant, as which ``Clip`` is imported, become ``maximum`` or ``minimum``,
    dropouts, which do nothing when a model is used, the values that they take, and the parts into which the channels of
    a feature map are split, slices.

    Args:
        module: has the functions that are called.
        bindings: bindings of a straight-line function, in order.
        outputs: what it returns.
    """
    bound: dict[relax.Var, relax.Expr] = {}
    for var, value in bindings:
        bound[var] = _field(bound, _bound_of(module, value))
    live, kept = set(operands(outputs)), []
    for var, value in reversed(bound.items()):
        if var in live:
            live.update(operands(value))
            kept.append((var, value))
    return kept[::-1]


def _field(bound: dict[relax.Var, relax.Expr], value: relax.Expr) -> relax.Expr:
    """What is taken from a dropout or a split, without them."""
    source = bound.get(value.tuple_value) if isinstance(value, relax.TupleGetItem) else None
    if source is None:
        return value
    if operator(source) == "relax.nn.dropout" and value.index == 0:
        return source.args[0]
    whole = map_shape(source.args[0]) if operator(source) == "relax.split" else None
    if whole is None or int(source.attrs.axis) % 4 != 1:
        return value
    sizes = [int(part.shape.values[1]) for part in value.tuple_value.ty.fields]
    first = sum(sizes[: value.index])
    return relax.op.strided_slice(source.args[0], [1], [first], [first + sizes[value.index]])


def _bound_of(module: tvm.IRModule, value: relax.Expr) -> relax.Expr:
    """A call of a function that is a maximum or minimum with a constant as that operator; else ``value``."""
    if operator(value) != "relax.call_tir" or map_shape(value) is None:
        return value
    if not str(value.args[0].name_hint).startswith(("maximum", "minimum")):  # as the importer calls them
        return value
    fields = list(value.args[1].fields)
    schedule = s_tir.Schedule(module[value.args[0]])
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    body = schedule.get(blocks[0]).body if len(blocks) == 1 else None
    make = {"Max": relax.op.maximum, "Min": relax.op.minimum}.get(type(getattr(body, "value", None)).__name__)
    if make is None or body is None or not fields or not _same_place(body):
        return value
    limit = body.value.b
    if isinstance(limit, tvm.tirx.FloatImm) and len(fields) == 1:
        return make(fields[0], relax.const(float(limit.value), "float32"))
    scalar = type(limit).__name__ == "TensorLoad" and len(fields) == 2 and isinstance(fields[1], tvm.ir.GenericConst)
    return make(*fields) if scalar and len(limit.indices) == 0 else value


def _same_place(store: Any) -> bool:
    """Whether the first operand is read where the result is written."""
    load = store.value.a
    return (
        type(load).__name__ == "TensorLoad"
        and len(load.indices) == len(store.indices)
        and all(a.same_as(b) for a, b in zip(load.indices, store.indices, strict=True))
    )
