"""Values under another shape than their own, the same elements in the same order: what needs no reshape gets none.

A framework flattens ``[batch, tokens, width]`` before a dense layer and unfolds it after; a product of groups has the
shape ``[groups, channels, pixels]``. Were these values turned back at once, no activation and no residual could be
fused into the product that makes them.
"""

from __future__ import annotations

import tvm
from tvm import relax

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.expressions import map_shape, operator, shape
from workers.tvm_backend.passes.layout.operators import BINARY, FINITE, STEEP
from workers.tvm_backend.passes.layout.values import Values

RANKS = {2, 3}
"""Axes of the matrices whose rows are regrouped; feature maps have more."""


def keep(values: Values, var: relax.Var, call: relax.Expr) -> relax.Expr | None:
    """The call on a value of another shape, of which ``var`` then is one, too; None when that is not possible."""
    name = operator(call)
    if name == "relax.reshape":
        before, after = shape(call.args[0]), shape(var)
        if before is None or after is None or not isinstance(call.args[0], relax.Var):
            return None
        regroups = before[-1:] == after[-1:] and {len(before), len(after)} <= RANKS
        return values.reshaped(call.args[0]) if regroups else values.in_shape(call.args[0], after)
    if name in (*FINITE, *STEEP) and values.is_reshaped(call.args[0]):
        return relax.Call(call.op, [values.reshaped(call.args[0]), *call.args[1:]], call.attrs, call.ty_args)
    if name in (*BINARY, "relax.divide"):
        return _binary(values, var, call)
    return None


def _binary(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """Two tensors of one shape, or one and a scalar or a vector."""
    other = next((values.reshaped(arg) for arg in call.args if values.is_reshaped(arg)), None)
    target = None if other is None else shape(other)
    if target is None:
        return None
    if not all(isinstance(arg, tvm.ir.GenericConst) or shape(arg) == shape(var) for arg in call.args):
        return None
    vectors = [_vector(arg, var, target) for arg in call.args if isinstance(arg, tvm.ir.GenericConst)]
    if any(vector is None for vector in vectors):
        return None
    arguments = [
        vectors.pop(0) if isinstance(arg, tvm.ir.GenericConst) else values.in_shape(arg, target) for arg in call.args
    ]
    return relax.Call(call.op, arguments, call.attrs, call.ty_args)


def _vector(constant: relax.Expr, var: relax.Var, target: tuple[int, ...]) -> relax.Expr | None:
    """A constant for a value of the shape ``target``; None when it varies over more than columns or channels."""
    if shape(constant) is None:
        return None
    array, dims = fold_constants.constant_array(constant), map_shape(var)
    if array.size == 1:
        return relax.const(float(array.item()), "float32")
    if dims is None:
        return fold_constants.to_constant(array.reshape(-1)) if array.size == array.shape[-1] == target[-1] else None
    if array.ndim < 3 or array.size != array.shape[-3] or array.size != dims[1]:
        return None
    return fold_constants.to_constant(array.reshape(*target[:-1], 1))
