"""Rows of a matrix, whatever axes number them: reshapes around a product that only regroup rows need not be.

A framework flattens ``[batch, tokens, width]`` before a dense layer and unfolds it after. Left where they are, these
reshapes keep activation and residual from joining the product.
"""

from __future__ import annotations

import tvm
from tvm import relax

from workers.tvm_backend import folding
from workers.tvm_backend.layout.expressions import operator, shape
from workers.tvm_backend.layout.operators import BINARY, FINITE, STEEP
from workers.tvm_backend.layout.values import Values

RANKS = (2, 3)
"""Axes of what is treated so; feature maps have more."""


def regroup(values: Values, var: relax.Var, call: relax.Expr) -> relax.Expr | None:
    """The call on rows that are grouped otherwise than ``var`` says; None when that is not possible."""
    name = operator(call)
    if name == "relax.reshape":
        before, after = shape(call.args[0]), shape(var)
        if before is None or after is None or before[-1:] != after[-1:] or not {len(before), len(after)} <= set(RANKS):
            return None
        return values.rows(call.args[0])
    if name in (*FINITE, *STEEP) and values.is_regrouped(call.args[0]):
        return relax.Call(call.op, [values.rows(call.args[0]), *call.args[1:]], call.attrs, call.ty_args)
    if name in (*BINARY, "relax.divide"):
        return _binary(values, var, call)
    return None


def _binary(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """Rows with a scalar, or with a vector along them."""
    regrouped = [arg for arg in call.args if values.is_regrouped(arg)]
    if len({shape(values.rows(arg)) for arg in regrouped}) != 1 or any(shape(arg) != shape(var) for arg in regrouped):
        return None
    arguments = [values.rows(arg) if values.is_regrouped(arg) else _vector(arg, var) for arg in call.args]
    if any(argument is None for argument in arguments):
        return None
    return relax.Call(call.op, arguments, call.attrs, call.ty_args)


def _vector(constant: relax.Expr, var: relax.Var) -> relax.Expr | None:
    """A constant without the axes that number rows; None when it has them, or is none."""
    dims, rows = shape(constant), shape(var)
    if dims is None or rows is None or not isinstance(constant, tvm.ir.GenericConst):
        return None
    array = folding.constant_array(constant)
    if array.size == 1:
        return relax.const(float(array.item()), "float32")
    return folding.to_constant(array.reshape(-1)) if array.size == dims[-1] == rows[-1] else None
