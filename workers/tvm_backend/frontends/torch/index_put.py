"""PyTorch's writing at indices, as into caches of keys and values: TVM's importer wants an index for every axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported


def put(node: Any, importer: Any) -> relax.Var:
    """``x[indices] = values``, or ``+=``: a copy of ``x``.

    Raises:
        UnsupportedOperator: a mask with a value for each place, of which a run has as many as it has.
    """
    x, values, accumulate = importer.env[node.args[0]], importer.env[node.args[2]], bool([*node.args, False][3])
    axes = [axis for axis, index in enumerate(node.args[1]) if index is not None]
    given = [importer.env[node.args[1][axis]] for axis in axes]
    if any(str(index.ty.dtype) == "bool" for index in given):
        return _where(node, importer.block_builder.emit, x, given, values, accumulate)
    return _scattered(str(node.target), importer.block_builder.emit, x, (axes, given), values, accumulate)


def _where(node: Any, emit: Any, x: relax.Expr, given: list[relax.Expr], values: relax.Expr, add: bool) -> relax.Var:
    """One value wherever a mask says so."""
    mask, *more = given
    if more or node.args[1][0] is None or fixed_extents(str(node.target), values) not in ([], [1]):
        raise unsupported(str(node.target), "a mask with a value for each place")
    mask = emit(relax.op.expand_dims(mask, list(range(mask.ty.ndim, x.ty.ndim)))) if mask.ty.ndim < x.ty.ndim else mask
    return emit(relax.op.where(mask, emit(relax.op.add(x, values)) if add else values, x))


def _scattered(
    name: str, emit: Any, x: relax.Expr, at: tuple[list[int], list[relax.Expr]], values: relax.Expr, add: bool
) -> relax.Var:
    """At whole numbers: the axes that they count come first, and go back."""
    axes, given = at
    extents = fixed_extents(name, x)
    places = list(np.broadcast_shapes(*(tuple(fixed_extents(name, index)) for index in given)))
    rest = [axis for axis in range(len(extents)) if axis not in axes]
    first = axes[0] if axes[-1] - axes[0] < len(axes) else 0
    count = len(places)
    shape = [extents[axis] for axis in rest]
    shape[first:first] = places
    order = [*range(first, first + count), *range(first), *range(first + count, len(shape))]
    updates = emit(relax.op.permute_dims(emit(relax.op.broadcast_to(values, shape)), order))
    columns = []
    for axis, index in zip(axes, given, strict=True):
        front = emit(relax.op.floor_mod(index, relax.const(extents[axis], str(index.ty.dtype))))  # from behind as well
        wide = emit(relax.op.broadcast_to(emit(relax.op.astype(front, "int64")), places))
        columns.append(emit(relax.op.expand_dims(wide, -1)))
    moved = emit(relax.op.permute_dims(x, [*axes, *rest]))
    found = emit(relax.op.scatter_nd(moved, emit(relax.op.concat(columns, -1)), updates, "add" if add else "update"))
    back = [[*axes, *rest].index(axis) for axis in range(len(extents))]
    return emit(relax.op.permute_dims(found, back))
