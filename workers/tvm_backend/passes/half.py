"""Models of half precision as float32 ones: kernels on narrow storage are made of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.expressions import operator

HALVES = ("float16", "bfloat16")
TYPED = ("relax.call_tir", "relax.call_tir_inplace", "relax.call_dps_packed", "relax.call_pure_packed")
"""Calls of functions that take no other types than theirs."""


def in_float32(mod: tvm.IRModule) -> tvm.IRModule:
    """Compute what is of half precision in float32; inputs and outputs keep their types.

    An operator that cannot is called as it was, between conversions. A model without half precision, or one that is
    not straight-line, stays as it is.
    """
    main = mod["main"]
    blocks = list(main.body.blocks)
    bindings = [each for block in blocks for each in block.bindings]
    kinds = [each.ty for each in (*main.params, *(binding.var for binding in bindings))]
    straight = all(isinstance(block, relax.DataflowBlock) for block in blocks)
    if not any(map(_has_half, kinds)) or not straight or any(isinstance(each, relax.MatchCast) for each in bindings):
        return mod
    builder = relax.BlockBuilder(mod)
    with builder.function("main_in_float32", list(main.params)):
        with builder.dataflow():
            wide = _Widening(builder)
            for param in main.params:
                wide.new[param] = wide.cast(param, param.ty, _wide)
            for each in bindings:
                wide.new[each.var] = builder.emit(wide.value(each.value), name_hint=str(each.var.name))
            done = wide.cast(wide.operand(main.body.body), main.body.body.ty, _own)
            result = builder.emit_output(done)
        builder.emit_func_output(result)
    made = builder.get()
    new = made["main_in_float32"]
    functions = {var: each for var, each in made.functions.items() if str(var.name_hint) != "main_in_float32"}
    functions[made.get_global_var("main")] = relax.Function(new.params, new.body, main.ret_ty, main.is_pure, main.attrs)
    return tvm.IRModule(functions, attrs=made.attrs)


class _Widening:
    """Values of a function in float32, as they are emitted.

    Attributes:
        new: what the old function's variables have become.
    """

    def __init__(self, builder: relax.BlockBuilder) -> None:
        self._builder = builder
        self.new: dict[relax.Var, relax.Expr] = {}

    def value(self, old: relax.Expr) -> relax.Expr:
        """What a variable of the old function was bound to."""
        if not isinstance(old, relax.Call):
            return self.operand(old)
        args = [self.operand(each) for each in old.args]
        if operator(old) == "relax.astype":
            kind = _wide(str(old.attrs.dtype))
            return args[0] if str(args[0].ty.dtype) == kind else relax.op.astype(args[0], kind)
        if not any(_has_half(each.ty) for each in (old, *old.args)):
            return relax.Call(old.op, args, old.attrs, old.ty_args)
        made = None if operator(old) in TYPED else self._widened(old, args)
        if made is not None:
            return made
        kept = [self.cast(new, each.ty, _own) for new, each in zip(args, old.args, strict=True)]
        result = self._builder.emit(relax.Call(old.op, kept, old.attrs, old.ty_args))
        return self.cast(result, old.ty, _wide)

    def _widened(self, old: relax.Call, args: list[relax.Expr]) -> relax.Expr | None:
        """The call on float32; None where its types are written down in it."""
        try:
            made = self._builder.normalize(relax.Call(old.op, args, old.attrs, old.ty_args))
        except Exception:  # inference raises whatever the operator's does
            return None
        return None if _has_half(made.ty) else made

    def operand(self, old: relax.Expr) -> relax.Expr:
        """An operand of the old function in the new one."""
        if isinstance(old, relax.Tuple):
            return relax.Tuple([self.operand(each) for each in old.fields])
        if isinstance(old, relax.TupleGetItem):
            return relax.TupleGetItem(self.operand(old.tuple_value), old.index)
        if isinstance(old, tvm.ir.GenericConst) and _has_half(old.ty):
            return fold_constants.to_constant(fold_constants.constant_array(old).astype("float32"))
        return self.new.get(old, old) if isinstance(old, relax.Var) else old

    def cast(self, value: relax.Expr, kind: Any, to: Callable[[str], str]) -> relax.Expr:
        """``value`` whose type was ``kind``, with what was of half precision converted."""
        if not _has_half(kind):
            return value
        if isinstance(kind, relax.TensorType):
            return self._builder.emit(relax.op.astype(value, to(str(kind.dtype))))
        whole = self._builder.emit(value)
        fields = [self._builder.emit(relax.TupleGetItem(whole, at)) for at in range(len(kind.fields))]
        return relax.Tuple([self.cast(each, of, to) for each, of in zip(fields, kind.fields, strict=True)])


def _wide(kind: str) -> str:
    return "float32" if kind in HALVES else kind


def _own(kind: str) -> str:
    return kind


def _has_half(kind: Any) -> bool:
    if isinstance(kind, relax.TupleType):
        return any(map(_has_half, kind.fields))
    return isinstance(kind, relax.TensorType) and str(kind.dtype) in HALVES
