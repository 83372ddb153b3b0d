"""One-dimensional maps ``[N, C, W]`` as images of one row, ``[N, C, 1, W]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.expr_functor import mutator

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.as_images import AsImages, rewritten
from workers.tvm_backend.passes.layout.expressions import map_shape, numbers, operator, shape

VIEWS = frozenset({"relax.reshape", "relax.squeeze", "relax.expand_dims"})
"""Operators that give the same elements another shape."""


def widen(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with one-dimensional float32 convolutions as two-dimensional ones.

    What stands between them, elementwise operators, normalisations and pools, works on the same maps. Convolutions of
    dynamic shape, and those whose weights are no constants, stay as they are.
    """
    return rewritten(mod, _Widen(mod))


@mutator
class _Widen(AsImages):
    RANK = 3

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        made = super().visit_call_(op)
        dims = shape(made)
        if operator(made) in VIEWS and dims is not None and len(dims) != self.RANK:
            view = self.view(made.args[0])
            return view if view is not None and shape(view) == dims else made
        return made

    def view(self, expr: relax.Expr) -> relax.Expr | None:
        """See :class:`AsImages`."""
        value, dims = self.bound(expr), shape(expr)
        if operator(value) not in VIEWS or dims is None or len(dims) != self.RANK:
            return None
        return value.args[0] if map_shape(value.args[0]) == (*dims[:2], 1, dims[2]) else None

    def images(self, expr: relax.Expr) -> relax.Expr:
        """See :class:`AsImages`."""
        wide, dims = self.view(expr), shape(expr)
        assert dims is not None
        return self.builder_.emit(relax.op.reshape(expr, (*dims[:2], 1, dims[2]))) if wide is None else wide

    def whole(self, images: relax.Expr, dims: tuple[int, ...]) -> relax.Expr:
        """See :class:`AsImages`."""
        return relax.op.reshape(images, dims)

    def constant(self, array: NDArray[Any], dims: tuple[int, ...]) -> NDArray[Any] | None:
        """See :class:`AsImages`."""
        return np.expand_dims(array, -2) if array.ndim > 1 else array

    def special(self, name: str, call: relax.Call, dims: tuple[int, ...]) -> relax.Expr | None:
        """See :class:`AsImages`."""
        if name in CONVOLUTIONS:
            weight, layouts = self.array(call.args[1]), (str(call.attrs.data_layout), str(call.attrs.kernel_layout))
            if weight is None or shape(call.args[0]) is None or layouts != (MAP, KERNELS[name]):
                return None
            return CONVOLUTIONS[name](
                call.attrs, self.images(call.args[0]), fold_constants.to_constant(np.expand_dims(weight, 2))
            )
        if name in POOLS:
            wide = self.view(call.args[0])
            return None if wide is None or str(call.attrs.layout) != MAP else POOLS[name](call.attrs, wide)
        return None


def _padding(attrs: Any) -> tuple[int, int, int, int]:
    before, after = numbers(attrs.padding)
    return 0, before, 0, after


def _row(pair: Any, other: int = 1) -> tuple[int, int]:
    return other, numbers(pair)[0]


def _convolution(attrs: Any, data: relax.Expr, weight: relax.Expr) -> relax.Call:
    return relax.op.nn.conv2d(
        data, weight, _row(attrs.strides), _padding(attrs), _row(attrs.dilation), int(attrs.groups)
    )


def _transposed(attrs: Any, data: relax.Expr, weight: relax.Expr) -> relax.Call:
    return relax.op.nn.conv2d_transpose(
        data,
        weight,
        _row(attrs.strides),
        _padding(attrs),
        _row(attrs.output_padding, 0),
        _row(attrs.dilation),
        int(attrs.groups),
    )


def _pool(make: Callable[..., relax.Call]) -> Callable[[Any, relax.Expr], relax.Call]:
    return lambda attrs, data: make(
        data,
        _row(attrs.pool_size),
        _row(attrs.strides),
        _padding(attrs),
        _row(attrs.dilation),
        bool(attrs.ceil_mode),
        bool(attrs.count_include_pad),
    )


MAP = "NCW"
KERNELS: Mapping[str, str] = {"relax.nn.conv1d": "OIW", "relax.nn.conv1d_transpose": "IOW"}
"""Layouts of weights."""
CONVOLUTIONS: Mapping[str, Callable[[Any, relax.Expr, relax.Expr], relax.Call]] = {
    "relax.nn.conv1d": _convolution,
    "relax.nn.conv1d_transpose": _transposed,
}
"""From attributes, a map of one row and weights of one row: the same in two dimensions."""
POOLS: Mapping[str, Callable[[Any, relax.Expr], relax.Call]] = {
    "relax.nn.max_pool1d": _pool(relax.op.nn.max_pool2d),
    "relax.nn.avg_pool1d": _pool(relax.op.nn.avg_pool2d),
}
"""From attributes and a map of one row."""
