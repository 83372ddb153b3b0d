"""Values that are quantised and dequantised equally, as float32 that is rounded: what follows needs no
whole numbers."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.expressions import operator, shape
from workers.tvm_backend.passes.layout.grids import KEEPING

MARKS = frozenset({"relax.quantize", "relax.dequantize", "relax.round"})
"""Operators of which a quantised model has one at least; importers write some as float32 that is rounded."""


def is_quantised(mod: tvm.IRModule) -> bool:
    """Whether an imported model may be a quantised one."""
    main = mod["main"].body
    return any(operator(binding.value) in MARKS for block in main.blocks for binding in block.bindings)


@mutator
class _Floats(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if operator(call) != "relax.dequantize":
            return call
        found = self._rounded(call.args[0], call)
        return call if found is None else found

    def _rounded(self, expr: relax.Expr, call: relax.Call) -> relax.Expr | None:
        """What ``call`` makes of the whole numbers ``expr``; None where they were not quantised in the same way."""
        value = fold_constants.value_of(self.builder_, expr)
        if operator(value) in KEEPING:
            found = self._rounded(value.args[0], call)
            return (
                None
                if found is None
                else relax.Call(value.op, [self.builder_.emit(found), *value.args[1:]], value.attrs, value.ty_args)
            )
        kind = str(expr.ty.dtype)
        whole = kind.startswith(("int", "uint"))
        if operator(value) != "relax.quantize" or shape(value.args[0]) is None or not whole:
            return None
        scale, zero = self._numbers(value)
        if scale is None or zero is None or [scale, zero] != self._numbers(call):
            return None
        limits = np.iinfo(kind)
        steps = self.builder_.emit(
            relax.op.round(self.builder_.emit(relax.op.divide(value.args[0], relax.const(scale, "float32"))))
        )
        kept = self.builder_.emit(relax.op.clip(steps, float(limits.min - zero), float(limits.max - zero)))
        return relax.op.multiply(kept, relax.const(scale, "float32"))

    def _numbers(self, call: relax.Call) -> list[float | None]:
        """Scale and zero point, where they are single constants."""
        arrays = [fold_constants.constant_of(self.builder_, each) for each in call.args[1:]]
        return [None if array is None or array.size > 1 else float(array.item()) for array in arrays]


def rounded(mod: tvm.IRModule) -> tvm.IRModule:
    """Put rounded float32 in the place of what is quantised and dequantised equally.

    ``clip(round(x / s) + z, a, b)`` less ``z`` is ``clip(round(x / s), a - z, b - z)``: both are exact, so that the
    result is the same number. A max pool or a change of shape in between comes behind.
    """
    floats = _Floats(mod)
    made = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    made["main"] = floats.visit_expr(mod["main"])
    return made
