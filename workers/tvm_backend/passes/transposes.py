"""Products of few rows read a transposed operand as it lies: the transpose alone would take longer than the product.

Such are the scores of attention while a model writes token by token: a row for each query, a column for each key, and
the keys of all tokens before lie as they were stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.as_images import rewritten
from workers.tvm_backend.passes.layout.expressions import numbers, operator, shape


def into_products(mod: tvm.IRModule, cpu: CpuModel) -> tvm.IRModule:
    """``main`` with transposes as part of the float32 products of few rows that read them.

    Args:
        cpu: says how few rows, and how wide vectors are.
    """
    return rewritten(mod, _Products(mod, cpu))


def turned_matmul(a: te.Tensor, b: te.Tensor, axes: Sequence[int]) -> te.Tensor:
    """``matmul(a, permute_dims(b, axes))``.

    Args:
        a: [..., M, K].
        b: [..., K, N] once it is turned, with the leading axes of ``a`` or none.
    """
    depth = te.reduce_axis((0, a.shape[-1]), "k")

    def value(*index: Any) -> Any:
        turned = [*index[: len(axes) - 2], depth, index[-1]]
        place = [turned[axes.index(axis)] for axis in range(len(axes))]
        return te.sum(a(*index[:-1], depth) * b(*place), axis=depth)

    return te.compute((*a.shape[:-1], b.shape[axes[-1]]), value, name="matmul")


@mutator
class _Products(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.IRModule, cpu: CpuModel) -> None:
        super().__init__(mod)
        self.cpu = cpu

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if operator(call) != "relax.matmul" or shape(call) is None:
            return call
        a, turned = call.args[0], fold_constants.value_of(self.builder_, call.args[1])
        if operator(turned) != "relax.permute_dims":
            return call
        dims, own = shape(a), shape(call.args[1])
        if dims is None or own is None or not _broadcasts(dims, own):
            return call
        axes = numbers(turned.attrs.axes or range(len(own))[::-1])
        if not _few(dims, own, axes, self.cpu):
            return call
        return self.builder_.call_te(turned_matmul, a, turned.args[0], axes, primfunc_name_hint="matmul")


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether the right operand of a product has the left one's leading axes, or none."""
    return len(a) > 1 and (len(b) == 2 or (len(b) == len(a) and a[:-2] == b[:-2]))


def _few(a: tuple[int, ...], b: tuple[int, ...], axes: tuple[int, ...], cpu: CpuModel) -> bool:
    """Whether a product of these shapes, whose right operand was turned by ``axes``, has few rows for what it reads.

    The operand's neighbours in memory, along the reduction or the columns, have to fill vectors.
    """
    rows, lanes = math.prod(a[:-1] if len(b) == 2 else a[-2:-1]), cpu.lanes()
    if rows > cpu.inner_product_rows:
        return False
    if axes[-1] == len(b) - 1:
        return b[-1] % lanes == 0
    return axes[-2] == len(b) - 1 and a[-1] % lanes == 0 and cpu.inner_product_steps * rows <= a[-1]
