"""Transposed convolutions as convolutions.

Output pixels whose positions leave the same remainders by the stride are one phase, and each phase is a convolution of
the input with some of the weights (Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016).
All phases have one input, so they are one convolution with s × s times as many outputs, whose results are put between
one another. TVM convolves an input with zeros in between, which takes s × s times as many multiplications.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.expressions import Shape, map_shape, numbers, operator

LAYOUTS = ("NCHW", "IOHW", "NCHW")
"""Layouts of input, weights and output."""


def phases(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with transposed float32 convolutions of one group, without dilation, as convolutions.

    Convolutions of dynamic shape, and those without constant weights, stay as they are.
    """
    made = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    made["main"] = _Phases(mod).visit_expr(mod["main"])
    return made


@dataclass(frozen=True)
class Axis:
    """One axis of a transposed convolution.

    Attributes:
        stride: number of phases.
        taps: weights of a phase.
        before, after: zeros around the input.
        steps: outputs of a phase.
        cut: outputs of all phases, put between one another, before the first one that is wanted.
    """

    stride: int
    taps: int
    before: int
    after: int
    steps: int
    cut: int

    @classmethod
    def of(cls, size: int, out: int, kernel: int, stride: int, padding: int) -> Axis | None:
        """Axis for an input and an output of these extents; None if some input has no output.

        Args:
            padding: outputs that are left out before the first one.
        """
        taps = -(-kernel // stride)
        first, last = min(padding // stride, taps - 1), (padding + out - 1) // stride
        if last < size - 1:
            return None
        return cls(stride, taps, taps - 1 - first, last - size + 1, last - first + 1, padding - first * stride)


def phase_weight(weight: NDArray[Any], rows: Axis, columns: Axis) -> NDArray[Any]:
    """[C, O, KH, KW] of a transposed convolution as [phases * O, C, taps, taps], zeros where a phase has fewer."""
    inputs, outs, high, wide = weight.shape
    missing = rows.taps * rows.stride - high, columns.taps * columns.stride - wide
    full = np.pad(weight, ((0, 0), (0, 0), (0, missing[0]), (0, missing[1])))
    split = full.reshape(inputs, outs, rows.taps, rows.stride, columns.taps, columns.stride)[:, :, ::-1, :, ::-1]
    return np.asarray(split.transpose(3, 5, 1, 0, 2, 4).reshape(-1, inputs, rows.taps, columns.taps))


@mutator
class _Phases(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if operator(call) != "relax.nn.conv2d_transpose" or not isinstance(call.args[1], tvm.ir.GenericConst):
            return call
        attrs, source, out = call.attrs, map_shape(call.args[0]), map_shape(call)
        layouts = str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or attrs.data_layout)
        single = int(attrs.groups) == 1 and numbers(attrs.dilation) == (1, 1)
        if source is None or out is None or layouts != LAYOUTS or not single:
            return call
        (down, right), (top, left, *_) = numbers(attrs.strides), numbers(attrs.padding)
        weight = fold_constants.constant_array(call.args[1])
        rows = Axis.of(source[2], out[2], weight.shape[2], down, top)
        columns = Axis.of(source[3], out[3], weight.shape[3], right, left)
        if rows is None or columns is None:
            return call
        padding = rows.before, columns.before, rows.after, columns.after
        made = fold_constants.to_constant(phase_weight(weight, rows, columns))
        found = self.builder_.emit(relax.op.nn.conv2d(call.args[0], made, padding=padding))
        return self._between(found, rows, columns, out)

    def _between(self, found: relax.Var, rows: Axis, columns: Axis, out: Shape) -> relax.Expr:
        """The phases put between one another and cut to the extents ``out``."""
        if map_shape(found) == out:
            return found
        emit = self.builder_.emit
        extents = out[0], rows.stride, columns.stride, out[1], rows.steps, columns.steps
        turned = emit(relax.op.permute_dims(emit(relax.op.reshape(found, extents)), [0, 3, 4, 1, 5, 2]))
        full = rows.steps * rows.stride, columns.steps * columns.stride
        whole = relax.op.reshape(turned, (*out[:2], *full))
        if full == out[2:]:
            return whole
        return relax.op.strided_slice(
            emit(whole), [2, 3], [rows.cut, columns.cut], [rows.cut + out[2], columns.cut + out[3]]
        )
