"""One-dimensional maps ``[N, C, W]`` as feature maps of one row, ``[N, C, 1, W]``, which have kernels and layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from workers.tvm_backend import folding
from workers.tvm_backend.layout.expressions import map_shape, numbers, operator, shape
from workers.tvm_backend.layout.operators import BINARY, FINITE, STEEP

VIEWS = frozenset({"relax.reshape", "relax.squeeze", "relax.expand_dims"})
"""Operators that give the same elements another shape."""


def widen(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with one-dimensional float32 convolutions as two-dimensional ones.

    What stands between them, elementwise operators, normalisations and pools, works on the same maps. Convolutions of
    dynamic shape, and those whose weights are no constants, stay as they are.
    """
    made = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    made["main"] = _Widen(mod).visit_expr(mod["main"])
    return made


@mutator
class _Widen(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        target = shape(call)
        if operator(call) in VIEWS and target is not None:
            view = self._view(call.args[0])
            return view if view is not None and shape(view) == target else call
        made = None if target is None or len(target) != 3 else self._made(call, target)
        return call if made is None else relax.op.reshape(self.builder_.emit(made), target)

    def visit_tuple_getitem_(self, op: relax.TupleGetItem) -> relax.Expr:
        """The first result of a normalisation."""
        item = self.visit_expr_post_order(op)
        call, target = self._bound(item.tuple_value), shape(item)
        wide = self._view(call.args[0]) if operator(call) == "relax.nn.batch_norm" else None
        if item.index or wide is None or target is None:
            return item
        whole = self.builder_.emit(relax.Call(call.op, [wide, *call.args[1:]], call.attrs, call.ty_args))
        return relax.op.reshape(self.builder_.emit(relax.TupleGetItem(whole, 0)), target)

    def _made(self, call: relax.Call, target: tuple[int, ...]) -> relax.Expr | None:
        """The call on maps of one row; None where it stays."""
        name = operator(call)
        if name in CONVOLUTIONS:
            weight, layouts = self._constant(call.args[1]), (str(call.attrs.data_layout), str(call.attrs.kernel_layout))
            if weight is None or shape(call.args[0]) is None or layouts != (MAP, KERNELS[name]):
                return None
            return CONVOLUTIONS[name](
                call.attrs, self._wide(call.args[0]), folding.to_constant(np.expand_dims(weight, 2)))
        if name in POOLS:
            wide = self._view(call.args[0])
            return None if wide is None or str(call.attrs.layout) != MAP else POOLS[name](call.attrs, wide)
        if name in (*FINITE, *STEEP):
            wide = self._view(call.args[0])
            return None if wide is None else relax.Call(call.op, [wide, *call.args[1:]], call.attrs, call.ty_args)
        if name in (*BINARY, "relax.divide") and any(self._view(arg) is not None for arg in call.args):
            same = all(self._constant(arg) is not None or shape(arg) == target for arg in call.args)
            return relax.Call(call.op, [self._operand(arg) for arg in call.args], call.attrs, call.ty_args) \
                if same else None
        return None

    def _operand(self, arg: relax.Expr) -> relax.Expr:
        array = self._constant(arg)
        if array is None:
            return self._wide(arg)
        return folding.to_constant(np.expand_dims(array, -2) if array.ndim > 1 else array)

    def _wide(self, expr: relax.Expr) -> relax.Expr:
        """A map of one row."""
        wide, dims = self._view(expr), shape(expr)
        assert dims is not None
        return self.builder_.emit(relax.op.reshape(expr, (*dims[:2], 1, dims[2]))) if wide is None else wide

    def _view(self, expr: relax.Expr) -> relax.Expr | None:
        """The map of one row that there is of ``expr``."""
        value, dims = self._bound(expr), shape(expr)
        if operator(value) not in VIEWS or dims is None or len(dims) != 3:
            return None
        return value.args[0] if map_shape(value.args[0]) == (*dims[:2], 1, dims[2]) else None

    def _bound(self, expr: relax.Expr) -> relax.Expr:
        return folding.value_of(self.builder_, expr)

    def _constant(self, expr: relax.Expr) -> NDArray[Any] | None:
        return folding.constant_of(self.builder_, expr)


def _padding(attrs: Any) -> tuple[int, int, int, int]:
    before, after = numbers(attrs.padding)
    return 0, before, 0, after


def _row(pair: Any, other: int = 1) -> tuple[int, int]:
    return other, numbers(pair)[0]


def _convolution(attrs: Any, data: relax.Expr, weight: relax.Expr) -> relax.Call:
    return relax.op.nn.conv2d(
        data, weight, _row(attrs.strides), _padding(attrs), _row(attrs.dilation), int(attrs.groups))


def _transposed(attrs: Any, data: relax.Expr, weight: relax.Expr) -> relax.Call:
    return relax.op.nn.conv2d_transpose(data, weight, _row(attrs.strides), _padding(attrs),
                                        _row(attrs.output_padding, 0), _row(attrs.dilation), int(attrs.groups))


def _pool(make: Callable[..., relax.Call]) -> Callable[[Any, relax.Expr], relax.Call]:
    return lambda attrs, data: make(
        data, _row(attrs.pool_size), _row(attrs.strides), _padding(attrs), _row(attrs.dilation),
        bool(attrs.ceil_mode), bool(attrs.count_include_pad))


MAP = "NCW"
KERNELS: Mapping[str, str] = {"relax.nn.conv1d": "OIW", "relax.nn.conv1d_transpose": "IOW"}
"""Layouts of weights."""
CONVOLUTIONS: Mapping[str, Callable[[Any, relax.Expr, relax.Expr], relax.Call]] = {
    "relax.nn.conv1d": _convolution, "relax.nn.conv1d_transpose": _transposed,
}
"""From attributes, a map of one row and weights of one row: the same in two dimensions."""
POOLS: Mapping[str, Callable[[Any, relax.Expr], relax.Call]] = {
    "relax.nn.max_pool1d": _pool(relax.op.nn.max_pool2d), "relax.nn.avg_pool1d": _pool(relax.op.nn.avg_pool2d),
}
"""From attributes and a map of one row."""
