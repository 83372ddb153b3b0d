"""Operators as early versions of ONNX defined them, as those of today."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from workers.tvm_backend.frontends.onnx.attention import Attributes

BROADCAST = frozenset({"Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"})
"""Operators that before opset 7 say how the second operand is broadcast."""
NUMPY_BROADCAST, SLICE_BY_OPERANDS = 7, 10
"""First opset with NumPy's broadcasting, and first one whose ``Slice`` takes its bounds as operands."""


def modern(name: str, inputs: list[Any], attrs: Attributes, opset: int) -> tuple[list[Any], Attributes, int]:
    """An operator's operands, attributes and opset as of today: ONNX's changelog, Add-6 and Slice-1."""
    if name in BROADCAST and opset < NUMPY_BROADCAST and "axis" in attrs:
        return [inputs[0], _along(inputs[0], inputs[1], attrs["axis"])], _without(attrs, "axis", "broadcast"), opset
    if name == "Slice" and opset < SLICE_BY_OPERANDS:
        starts, ends = attrs["starts"], attrs["ends"]
        axes = attrs.get("axes", list(range(len(starts))))
        given = [relax.const(np.array(values, np.int64), "int64") for values in (starts, ends, axes, [1] * len(starts))]
        return [inputs[0], *given], _without(attrs, "starts", "ends", "axes"), 13
    return inputs, attrs, opset


def _along(x: relax.Expr, y: relax.Expr, axis: int) -> relax.Expr:
    """``y`` with its first axis at ``axis`` of ``x``."""
    rank = x.ty.ndim
    after = rank - axis % rank - y.ty.ndim
    return relax.op.reshape(y, [*y.ty.shape, *[1] * after]) if after > 0 else y


def _without(attrs: Attributes, *names: str) -> Attributes:
    return {name: value for name, value in attrs.items() if name not in names}
