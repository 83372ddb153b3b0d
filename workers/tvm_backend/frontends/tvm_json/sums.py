"""Sums of tensors as additions: TVM's importer of ONNX writes ``Sum`` as a reduced stack, with a copy of each."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from workers.tvm_backend.passes.layout.expressions import numbers, operator


def as_additions(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with additions, as Tunesmith's importer of ONNX writes them; what is copied by then is not used."""
    made = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    made["main"] = _Additions(mod).visit_expr(mod["main"])
    return made


@mutator
class _Additions(PyExprMutator):  # type: ignore[misc]
    """Replaces sums of stacks, and copies that broadcast nothing."""

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if operator(call) == "relax.broadcast_to" and tvm_ffi.structural_equal(op.ty, op.args[0].ty):
            return call.args[0]
        parts = self._summed(call)
        if not parts:
            return call
        total = parts[0]
        for part in parts[1:]:
            total = self.builder_.emit(relax.op.add(total, part))
        return total

    def _summed(self, call: relax.Expr) -> list[relax.Expr]:
        """The tensors that a call adds up; none where it does something else."""
        if operator(call) != "relax.sum" or call.attrs.keepdims or numbers(call.attrs.axis or ()) != (0,):
            return []
        stack = self._bound(call.args[0])
        if operator(stack) != "relax.stack" or int(stack.attrs.axis or 0) != 0:
            return []
        parts = self._bound(stack.args[0])
        return list(parts.fields) if isinstance(parts, relax.Tuple) else []

    def _bound(self, value: relax.Expr) -> relax.Expr:
        """What a variable stands for."""
        found = self.lookup_binding(value) if isinstance(value, relax.Var) else value
        return value if found is None else found
