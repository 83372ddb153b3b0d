"""Bounds as operators: TVM's importer of ONNX writes ``Clip`` as functions, behind which no layout goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import TensorLoad
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, FloatImm, IntImm, PrimFunc

from workers.tvm_backend.passes.layout.expressions import operator

Operator = Callable[[relax.Expr, relax.Expr], relax.Expr]
OPERATORS: dict[str, Operator] = {"T_maximum": relax.op.maximum, "T_minimum": relax.op.minimum}
"""By the names that TVM's library of operators gives their blocks."""


def as_operators(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with ``Clip`` as Tunesmith's importer of ONNX writes it, without the functions that were called."""
    made = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    made["main"] = _Bounds(mod).visit_expr(mod["main"])
    return relax.transform.DeadCodeElimination(["main"])(made)


@mutator
class _Bounds(PyExprMutator):  # type: ignore[misc]
    """Replaces calls of functions that hold each value of a tensor above or below one number, and do nothing else."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._mod = mod

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if operator(call) != "relax.call_tir" or not isinstance(call.args[1], relax.Tuple):
            return call
        x, *bound = call.args[1].fields
        found = _bounded(self._mod[call.args[0]])
        if found is None:
            return call
        choose, number = found
        if number is not None and math.isinf(number):  # what older versions of Clip have where they name no bound
            return x
        return choose(x, bound[0] if number is None else relax.const(number, str(x.ty.dtype)))


def _bounded(function: PrimFunc) -> tuple[Operator, float | None] | None:
    """Whether a function is a bound: its operator and its number, None for the number that it is given."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(function.body, (SBlock, blocks.append))
    inner = [block for block in blocks if block.iter_vars]
    choose = OPERATORS.get(str(inner[0].name_hint)) if len(inner) == 1 else None
    if choose is None or not isinstance(inner[0].body, BufferStore):
        return None
    store, x, result = inner[0].body, function.params[0], function.params[-1]
    here = [axis.var for axis in inner[0].iter_vars]
    value, bound = getattr(store.value, "a", None), getattr(store.value, "b", None)
    writes_all = store.buffer.same_as(result) and _same(store.indices, here) and _same(x.ty.shape, result.ty.shape)
    if not (writes_all and _reads(value, x, here)):
        return None
    if isinstance(bound, FloatImm | IntImm) and len(function.params) == 2:
        return choose, bound.value
    return (choose, None) if len(function.params) == 3 and _reads(bound, function.params[1], []) else None


def _reads(value: Any, buffer: Any, indices: Sequence[Any]) -> bool:
    """Whether it is what a buffer has at these indices."""
    return isinstance(value, TensorLoad) and value.source.same_as(buffer) and _same(value.indices, indices)


def _same(here: Sequence[Any], there: Sequence[Any]) -> bool:
    return len(here) == len(there) and all(tvm_ffi.structural_equal(*each) for each in zip(here, there, strict=True))
