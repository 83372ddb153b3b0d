"""Puts the formulas in place of the calls in a module's functions."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm.ir import Call
from tvm.s_tir import SBlock
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.tirx import PrimFunc

from workers.tvm_backend.passes.fast_math.formulas import FORMULAS

FLOPS = "estimated_flops"
"""TVM takes a function's floating-point operations from here before it counts any."""
INLINE, NEVER = "meta_schedule.inline_rule", "disable"
DTYPE = "float32"


def with_fast_math(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with every float32 call that has a formula replaced.

    Functions without such calls stay as they are. The others keep the count of floating-point operations that they
    had: a formula's additions are the price of a call, not work that the model asks for.
    """
    functions = {
        var: _rewritten(function) if isinstance(function, PrimFunc) else function
        for var, function in mod.functions.items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def _rewritten(function: PrimFunc) -> PrimFunc:
    rewriter = _Rewriter(keep_exponentials=_reduces(function))
    body = tvm_ffi.structural_map(function.body, [(Call, rewriter.call), (SBlock, rewriter.block)], order="post")
    if not rewriter.changed:
        return function
    flops = int(estimate_tir_flops(tvm.IRModule({"main": function})))
    return function.with_body(body).with_attr(FLOPS, flops)


def _reduces(function: PrimFunc) -> bool:
    initial: list[Any] = []
    tvm_ffi.structural_walk(function.body, (SBlock, lambda block: initial.append(block.init)))
    return any(statement is not None for statement in initial)


class _Rewriter:
    """Callbacks of a mapping that comes to a node after its children.

    MetaSchedule does not inline blocks that call ``exp`` in a function that reduces, or a softmax would compute each
    exponential twice. It cannot see the call in the formula, so such blocks are marked.
    """

    def __init__(self, keep_exponentials: bool) -> None:
        self.changed = False
        self._keep_exponentials = keep_exponentials
        self._exponential_met = False

    def call(self, call: Call) -> Any:
        """The formula, or the call itself."""
        name = str(getattr(call.op, "name", ""))
        formula = FORMULAS.get(name)
        value = formula(*call.args) if formula is not None and str(call.ty.dtype) == DTYPE else None
        if value is None:
            return call
        self.changed = True
        self._exponential_met |= name == "tirx.exp"
        return value

    def block(self, block: SBlock) -> SBlock:
        """The block, marked if an exponential is in it and not in a block within."""
        marked, self._exponential_met = self._exponential_met and self._keep_exponentials, False
        if not marked:
            return block
        return SBlock(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            block.body,
            block.init,
            block.alloc_buffers,
            block.match_buffers,
            {**block.annotations, INLINE: NEVER},
            block.span,
        )
