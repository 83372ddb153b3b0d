"""What importers leave in a function that no layout could pass: dropouts, tuples of parts."""

from __future__ import annotations

from tvm import relax

from workers.tvm_backend.passes.layout.expressions import Binding, map_shape, operands, operator


def simplified(bindings: list[Binding], outputs: relax.Expr) -> list[Binding]:
    """The bindings that ``outputs`` need.

    Dropouts, which do nothing when a model is used, become the values that they take, and the parts into which the
    channels of a feature map are split, slices.

    Args:
        bindings: bindings of a straight-line function, in order.
        outputs: what it returns.
    """
    bound: dict[relax.Var, relax.Expr] = {}
    for var, value in bindings:
        bound[var] = _field(bound, value)
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
