"""Questions to ask of an expression of a straight-line Relax function."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

Shape = tuple[int, int, int, int]
Binding = tuple[relax.Var, relax.Expr]
"""A variable of a function and what it is bound to."""


def operator(expr: relax.Expr) -> str:
    """The name of the operator that ``expr`` calls; empty when it is no such call."""
    return str(getattr(expr.op, "name", "")) if isinstance(expr, relax.Call) else ""


def shape(expr: relax.Expr) -> tuple[int, ...] | None:
    """The extents of a float32 tensor; None for anything else and for dynamic extents."""
    kind = expr.ty
    if not isinstance(kind, relax.TensorType) or str(kind.dtype) != "float32":
        return None
    dims = getattr(kind.shape, "values", None)
    if dims is None or not all(isinstance(dim, tvm.tirx.IntImm) for dim in dims):
        return None
    return tuple(int(dim) for dim in dims)


def map_shape(expr: relax.Expr) -> Shape | None:
    """[N, C, H, W] of a feature map; None for anything else."""
    dims = shape(expr)
    return (dims[0], dims[1], dims[2], dims[3]) if dims is not None and len(dims) == 4 else None


def size(expr: relax.Expr) -> int:
    """Elements of a float32 tensor of static shape; 0 for anything else."""
    dims = shape(expr)
    return 0 if dims is None else math.prod(dims)


def numbers(values: Any) -> tuple[int, ...]:
    """An attribute of several numbers."""
    return tuple(int(value) for value in values)


def operands(expr: relax.Expr) -> list[relax.Var]:
    """The variables that ``expr`` uses."""
    if isinstance(expr, relax.Var):
        return [expr]
    if isinstance(expr, relax.Tuple):
        inner = list(expr.fields)
    elif isinstance(expr, relax.TupleGetItem):
        inner = [expr.tuple_value]
    elif isinstance(expr, relax.Call):
        inner = list(expr.args)
    else:
        inner = []
    return [var for each in inner for var in operands(each)]
