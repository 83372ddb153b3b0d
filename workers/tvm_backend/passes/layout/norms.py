"""Normalisations of groups of channels as programs of rows: a group is contiguous in a plain map."""

from __future__ import annotations

import math

import tvm
from tvm import relax

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout import compute
from workers.tvm_backend.passes.layout.expressions import numbers, operator, shape
from workers.tvm_backend.passes.layout.values import Values

OPERATORS = ("relax.nn.group_norm", "relax.nn.instance_norm")


def group_rows(values: Values, call: relax.Expr) -> relax.Expr | None:
    """A normalisation of groups, or of each channel, over all of their elements; None for anything else.

    The result has the shape ``[N, groups, channels of a group, elements of a channel]``.
    """
    if operator(call) not in OPERATORS or not isinstance(call.args[0], relax.Var):
        return None
    dims, attrs = shape(call), call.attrs
    factors = [
        fold_constants.constant_array(each) if isinstance(each, tvm.ir.GenericConst) else None
        for each in call.args[1:3]
    ]
    if dims is None or len(dims) < 3 or any(each is None for each in factors) or int(attrs.channel_axis) != 1:
        return None
    axes = {axis % len(dims) for axis in numbers(attrs.axes)}
    if axes - ({0} if dims[0] == 1 else set()) != set(range(2, len(dims))):
        return None
    groups = int(attrs.num_groups) if operator(call) == OPERATORS[0] else dims[1]
    split = dims[0], groups, dims[1] // groups, math.prod(dims[2:])
    constants = [fold_constants.to_constant(each.reshape(split[1:3])) for each in factors if each is not None]
    return values.call(compute.group_norm, values.in_shape(call.args[0], split), *constants, float(attrs.epsilon))
