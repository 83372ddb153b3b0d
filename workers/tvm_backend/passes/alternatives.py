"""Two programs of one model in one module: ``main``, and ``winograd``, which computes the same call for call.

Both take the same parameters and share whatever functions are equal. A place is a call of ``main`` and the call of
``winograd`` of the same number; where the two call different functions, that of ``winograd`` may replace that of
``main``, alone or with others. The exported script puts a model together from the places that were tuned.
"""

from __future__ import annotations

import collections
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from workers.tvm_backend.export import script
from workers.tvm_backend.passes.layout.expressions import operands

FUNCTION: str = script().ALTERNATIVE
"""The second function. Parameters that it alone takes are parameters of ``main`` too, which ignores them."""
CALL = "relax.call_tir"


def join(direct: tvm.IRModule, other: tvm.IRModule) -> tvm.IRModule:
    """``direct`` with the ``main`` of ``other`` as its second function, constants not yet lifted.

    Args:
        direct, other: the same model, lowered and fused.

    Raises:
        ValueError: the two differ in more than the functions that they call; the message says where.
    """
    _check(direct["main"], other["main"])
    builder = relax.BlockBuilder(direct)
    renamed = {
        var: builder.add_func(function, str(var.name_hint))  # an equal function is taken instead
        for var, function in other.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc)
    }
    mod = tvm.IRModule(dict(builder.get().functions.items()), attrs=direct.attrs)
    second = relax.utils.copy_with_new_vars(_Rename(mod, renamed).visit_expr(other["main"]))
    mod[FUNCTION] = second.with_attr("global_symbol", FUNCTION)
    return mod


def pairs(mod: tvm.IRModule) -> dict[str, str]:
    """Functions of ``winograd`` by those of ``main`` in whose place they may stand, by name.

    Only what replaces one function, everywhere where that is called, counts: what a task and its alternative take
    can be compared only if the model runs both equally often.
    """
    if not has_alternatives(mod):
        return {}
    here, there = ([name for name in map(_callee, bindings(mod[function])) if name] for function in ("main", FUNCTION))
    places = set(zip(here, there, strict=True))
    ours, theirs = (collections.Counter(place[side] for place in places) for side in (0, 1))
    return {a: b for a, b in places if a != b and ours[a] == 1 and theirs[b] == 1}


def has_alternatives(mod: tvm.IRModule) -> bool:
    """Whether there is a second function."""
    return any(str(var.name_hint) == FUNCTION for var in mod.functions)


def bindings(function: relax.Function) -> list[Any]:
    """The bindings of a straight-line function, in order."""
    return [binding for block in function.body.blocks for binding in block.bindings]


def _callee(binding: Any) -> str:
    """The name of the function that a binding calls; empty where it calls none."""
    call = binding.value
    called = isinstance(call, relax.Call) and getattr(call.op, "name", "") == CALL
    return str(call.args[0].name_hint) if called else ""


def _check(main: relax.Function, other: relax.Function) -> None:
    """Whether both compute values of the same types from the same values, binding by binding."""
    ours, theirs = bindings(main), bindings(other)
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} bindings, and {len(theirs)} with Winograd convolutions")
    same = dict(zip(other.params, main.params, strict=True))
    for a, b in zip(ours, theirs, strict=True):
        if not tvm_ffi.structural_equal(a.var.ty, b.var.ty) or bool(_callee(a)) != bool(_callee(b)):
            raise ValueError(f"{a.var.name} is {a.var.ty}, and {b.var.ty} with Winograd convolutions")
        read = [same.get(var) for var in operands(b.value)]
        if len(read) != len(operands(a.value)) or not all(
            x is not None and x.same_as(y) for x, y in zip(read, operands(a.value), strict=True)
        ):
            raise ValueError(f"{a.var.name} is made from other values with Winograd convolutions")
        same[b.var] = a.var


@mutator
class _Rename(PyExprMutator):  # type: ignore[misc]
    """Replaces the functions that are called."""

    def __init__(self, mod: tvm.IRModule, renamed: dict[Any, Any]) -> None:
        super().__init__(mod)
        self.renamed = renamed

    def visit_global_var_(self, op: Any) -> Any:
        return self.renamed.get(op, op)
