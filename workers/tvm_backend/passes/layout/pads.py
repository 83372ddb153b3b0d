"""Zeros that a framework puts around a map before a convolution, as the convolution's own padding.

A kernel that pads is a pass over the map, and no layout passes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm import relax, s_tir
from tvm.relax.expr_functor import PyExprMutator, mutator

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.expressions import numbers, operator, shape

CONVOLUTIONS: Mapping[str, tuple[Callable[..., relax.Call], str]] = {
    "relax.nn.conv1d": (relax.op.nn.conv1d, "NCW"),
    "relax.nn.conv2d": (relax.op.nn.conv2d, "NCHW"),
    "relax.nn.conv3d": (relax.op.nn.conv3d, "NCDHW"),
}
"""What makes a convolution, and the layout of its map."""
Pads = tuple[tuple[int, int], ...]
"""Zeros before and after each axis."""


def absorb_pads(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with convolutions that pad their inputs themselves where only zeros were put around rows and columns."""
    made = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    made["main"] = _Absorb(mod).visit_expr(mod["main"])
    return made


@mutator
class _Absorb(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.mod = mod

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if operator(call) not in CONVOLUTIONS:
            return call
        make, layout = CONVOLUTIONS[operator(call)]
        source = fold_constants.value_of(self.builder_, call.args[0])
        pads = self._pads(source)
        if pads is None or str(call.attrs.data_layout) != layout or any(map(any, pads[:2])):
            return call
        own, axes = numbers(call.attrs.padding), pads[2:]
        padding = [a + b for a, b in zip(own, (*(p[0] for p in axes), *(p[1] for p in axes)), strict=True)]
        data = source.args[0] if operator(source) == "relax.nn.pad" else source.args[1].fields[0]
        return make(
            data,
            call.args[1],
            numbers(call.attrs.strides),
            padding,
            numbers(call.attrs.dilation),
            int(call.attrs.groups),
            layout,
            str(call.attrs.kernel_layout),
        )

    def _pads(self, value: relax.Expr) -> Pads | None:
        """The zeros that a call puts around a float32 map; None where it is none, or does something else."""
        if operator(value) == "relax.nn.pad":
            widths, attrs = numbers(value.attrs.pad_width), value.attrs
            if str(attrs.pad_mode) != "constant" or float(attrs.pad_value) != 0.0 or shape(value.args[0]) is None:
                return None
            found = tuple(zip(widths[::2], widths[1::2], strict=True))
        elif operator(value) == "relax.call_tir" and str(value.args[0].name_hint).startswith("pad"):
            found = self._of_function(value)
        else:
            return None
        return found if found and all(before >= 0 <= after for before, after in found) else None

    def _of_function(self, call: relax.Call) -> Pads:
        """The zeros of a function that the importer made of ``Pad``; none where it does something else."""
        fields, outer = list(call.args[1].fields), shape(call)
        inner = shape(fields[0])
        schedule = s_tir.Schedule(self.mod[call.args[0]])
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
        if len(fields) != 1 or len(blocks) != 1 or inner is None or outer is None:
            return ()
        store = schedule.get(blocks[0]).body
        if not str(getattr(getattr(store.value, "op", None), "name", "")).endswith(".if_then_else"):
            return ()
        _, load, other = store.value.args
        if type(load).__name__ != "TensorLoad" or not isinstance(other, tvm.tirx.FloatImm) or other.value != 0.0:
            return ()
        before = [_shift(a, b) for a, b in zip(load.indices, store.indices, strict=True)]
        known = [(b, o - i - b) for b, i, o in zip(before, inner, outer, strict=True) if b is not None]
        return tuple(known) if len(known) == len(before) else ()


def _shift(index: Any, axis: Any) -> int | None:
    """What is taken from an axis to give an index; None where that is not all."""
    if index.same_as(axis):
        return 0
    if type(index).__name__ == "Sub" and index.a.same_as(axis) and isinstance(index.b, tvm.tirx.IntImm):
        return int(index.b.value)
    return None
