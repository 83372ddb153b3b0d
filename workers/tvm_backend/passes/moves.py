"""Functions that only move values, made again for values of another type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, tirx, topi
from tvm.s_tir import SBlock
from tvm_ffi import structural_walk

from workers.tvm_backend.passes.layout.compute import to_blocked, to_plain

Inputs = Sequence[relax.Expr]
Extents = Sequence[int]


def _reshape(builder: relax.BlockBuilder, inputs: Inputs, shape: Extents, _: tirx.PrimFunc) -> relax.Call:
    return builder.call_te(topi.reshape, inputs[0], shape, primfunc_name_hint="reshape")


def _concatenate(builder: relax.BlockBuilder, inputs: Inputs, shape: Extents, _: tirx.PrimFunc) -> relax.Call:
    first = inputs[0].ty.shape.values
    axis = next(at for at, extent in enumerate(shape) if int(first[at]) != extent)
    return builder.call_te(topi.concatenate, list(inputs), axis, primfunc_name_hint="concatenate")


def _transpose(builder: relax.BlockBuilder, inputs: Inputs, _: Extents, function: tirx.PrimFunc) -> relax.Call:
    blocks: list[Any] = []
    structural_walk(function.body, (SBlock, blocks.append))
    (block,) = (each for each in blocks if each.iter_vars)
    places = [next(at for at, v in enumerate(block.iter_vars) if v.var.same_as(i)) for i in block.body.value.indices]
    axes = [places.index(at) for at in range(len(places))]
    return builder.call_te(topi.transpose, inputs[0], axes, primfunc_name_hint="transpose")


def _to_plain(builder: relax.BlockBuilder, inputs: Inputs, shape: Extents, _: tirx.PrimFunc) -> relax.Call:
    return builder.call_te(to_plain, inputs[0], shape[1], primfunc_name_hint="to_plain")


def _to_blocked(builder: relax.BlockBuilder, inputs: Inputs, shape: Extents, _: tirx.PrimFunc) -> relax.Call:
    return builder.call_te(to_blocked, inputs[0], shape[-1], primfunc_name_hint="to_blocked")


_MOVES = {
    "reshape": _reshape,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "to_plain": _to_plain,
    "to_blocked": _to_blocked,
}
"""How the functions are made, by how their names begin."""
NAMES = tuple(_MOVES)
"""How the names of functions begin that only move values."""


def again(
    builder: relax.BlockBuilder, name: str, function: tirx.PrimFunc, inputs: Inputs, shape: Extents
) -> relax.Call:
    """The call of a function like one that only moves values, on other inputs.

    Args:
        name, function: that one; its name begins with one of ``NAMES``.
        shape: extents of the result.
    """
    move = next(made for start, made in _MOVES.items() if name.startswith(start))
    return move(builder, inputs, shape, function)
