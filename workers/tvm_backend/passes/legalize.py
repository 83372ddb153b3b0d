"""Lowerings of operators that take the place of TVM's own, where those lose the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx, topi
from tvm.ir import GenericConst

from workers.tvm_backend.dot.codes import CODES
from workers.tvm_backend.passes import hyperbolic, ordering, softmax
from workers.tvm_backend.passes.layout.compute import LANES

Legalize = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def group_norm(
    x: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float,
) -> te.Tensor:
    """Each group of channels with mean 0 and variance 1, then scaled and shifted.

    The formula is of Wu and He, "Group normalization", 2018; a group of one channel is instance normalisation. The
    variance is the mean of squared distances: TVM's is the mean of squares less the square of the mean, which is off
    by 0.03 where the mean is a hundred times the deviation, and may be negative where it is thousands of times.

    Args:
        x: tensor of any rank; smaller floats are summed as float32.
        gamma, beta: [C], C being the size of ``x`` along ``channel_axis``.
        groups: a divisor of C.
        axes: axes that are normalised over besides a group's channels; not ``channel_axis``.

    Returns:
        A tensor of the shape and type of ``x``.
    """
    shape = [int(extent) for extent in x.shape]
    over = sorted(axis % len(shape) for axis in axes)
    kept = [axis for axis in range(len(shape)) if axis != channel_axis and axis not in over]
    channels = shape[channel_axis] // groups
    dtype = "float32" if x.dtype in ("float16", "bfloat16") else x.dtype
    share = tirx.const(1.0 / (channels * math.prod(shape[axis] for axis in over)), dtype)

    def reduced(name: str, value: Callable[..., Any]) -> te.Tensor:
        channel = te.reduce_axis((0, channels), "c")
        inner = {axis: te.reduce_axis((0, shape[axis]), f"k{axis}") for axis in over}

        def total(*at: Any) -> Any:
            where = {**dict(zip(kept, at[:-1], strict=True)), **inner, channel_axis: at[-1] * channels + channel}
            return te.sum(value(at, [where[axis] for axis in range(len(shape))]), axis=[channel, *inner.values()])

        return te.compute((*(shape[axis] for axis in kept), groups), total, name=name)

    def at(*index: Any) -> Any:
        return x(*index).astype(dtype)

    sums = reduced("group_sum", lambda _, index: at(*index))

    def distance(group: Sequence[Any], index: Sequence[Any]) -> Any:
        return at(*index) - sums(*group) * share

    squares = reduced("group_squares", lambda group, index: distance(group, index) * distance(group, index))

    def normal(*index: Any) -> Any:
        channel = index[channel_axis]
        group = (*(index[axis] for axis in kept), tirx.floordiv(channel, channels))
        unit = distance(group, index) * tirx.rsqrt(squares(*group) * share + tirx.const(epsilon, dtype))
        return (unit * gamma(channel).astype(dtype) + beta(channel).astype(dtype)).astype(x.dtype)

    return te.compute(shape, normal, name="group_norm")


def _normalised(name: str) -> Legalize:
    def legalize(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        attrs = call.attrs
        axis = int(attrs.channel_axis) % len(call.args[0].ty.shape)
        groups = int(attrs.num_groups) if name == "group_norm" else int(call.args[0].ty.shape[axis])
        return bb.call_te(
            group_norm,
            *call.args,
            groups,
            axis,
            [int(each) for each in attrs.axes],
            float(attrs.epsilon),
            primfunc_name_hint=name,
        )

    return legalize


Compute = Callable[..., te.Tensor]


def _elementwise(compute: Compute, name: str) -> Legalize:
    """An operator of one tensor and numbers; floating-point tensors alone take ours."""

    def legalize(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if not ordering.is_float(call.args[0].ty):
            return _by_tvm(bb, call)
        return bb.call_te(compute, *call.args, primfunc_name_hint=name)

    return legalize


def _chosen(choose: Callable[[Any, Any], Any], name: str) -> Legalize:
    """The choice among two tensors. A constant number becomes a literal: as an argument, it would cost two comparisons
    and a test for NaN."""

    def compute(a: Any, b: Any) -> te.Tensor:
        return _broadcast(choose, a, b, name)

    def legalize(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if not ordering.is_float(call.args[0].ty):
            return _by_tvm(bb, call)
        operands = [_number(each, other) for each, other in zip(call.args, reversed(call.args), strict=True)]
        return bb.call_te(compute, *operands, primfunc_name_hint=name)

    return legalize


def _number(expr: relax.Expr, other: relax.Expr) -> Any:
    """A constant of one element as a literal, next to a tensor that has the shape of the result; others stay."""
    if not isinstance(expr, GenericConst) or isinstance(other, GenericConst):
        return expr
    array = expr.value.numpy()
    if array.size != 1 or array.ndim > other.ty.ndim:
        return expr
    return tirx.const(float(array.astype("float64").item()), str(other.ty.dtype))


def _broadcast(choose: Callable[[Any, Any], Any], a: Any, b: Any, name: str) -> te.Tensor:
    """The choice among elements of two tensors; one of them may be a number."""
    if not (isinstance(a, te.Tensor) and isinstance(b, te.Tensor)):
        tensor = a if isinstance(a, te.Tensor) else b
        return te.compute(
            tensor.shape,
            lambda *at: choose(*(each(*at) if isinstance(each, te.Tensor) else each for each in (a, b))),
            name=name,
        )
    rank = max(a.ndim, b.ndim)
    padded = [[1] * (rank - each.ndim) + [int(extent) for extent in each.shape] for each in (a, b)]
    shape = [other if one == 1 else one for one, other in zip(*padded, strict=True)]

    def value(*at: Any) -> Any:
        return choose(
            *(
                each(*(0 if extent == 1 < total else index for index, extent, total in _last(at, each, shape)))
                for each in (a, b)
            )
        )

    return te.compute(shape, value, name=name)


def _last(at: Sequence[Any], x: te.Tensor, shape: Sequence[int]) -> list[tuple[Any, int, int]]:
    """The last places of a broadcast tensor, as many as ``x`` has axes, each with the extents of both."""
    skipped = len(shape) - x.ndim
    return list(zip(at[skipped:], [int(extent) for extent in x.shape], shape[skipped:], strict=True))


def _extreme(reducer: Compute, name: str) -> Legalize:
    def legalize(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        x, rank = call.args[0], len(call.args[0].ty.shape)
        if not ordering.is_float(x.ty) or rank == 0 or not _is_fixed(x):
            return _by_tvm(bb, call)
        axes = range(rank) if call.attrs.axis is None else [int(axis) % rank for axis in call.attrs.axis]
        keep = bool(call.attrs.keepdims)
        return bb.call_te(lambda x: ordering.reduced(x, list(axes), keep, reducer, name), x, primfunc_name_hint=name)

    return legalize


def _place(compute: Compute, name: str, nan_last: bool) -> Legalize:
    """The first place of an extreme; that of NaN where there is one."""

    def legalize(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        x, axis, keep = call.args[0], call.attrs.axis, bool(call.attrs.keepdims)
        if not ordering.is_float(x.ty):
            return _by_tvm(bb, call)
        return bb.call_te(lambda x: compute(ordering.key(x, nan_last), axis, keep), x, primfunc_name_hint=name)

    return legalize


def _max_pool(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    attrs, x = call.attrs, call.args[0]
    plain = str(attrs.layout).startswith("NC") and attrs.out_layout in (attrs.layout, "")
    if not (ordering.is_float(x.ty) or str(x.ty.dtype) == CODES) or not plain or not _is_fixed(x):
        return _by_tvm(bb, call)
    windows = [
        [int(each) for each in given] for given in (attrs.pool_size, attrs.strides, attrs.padding, attrs.dilation)
    ]
    shape = [int(extent) for extent in call.ty.shape]
    return bb.call_te(ordering.max_pool, x, *windows, shape, primfunc_name_hint=call.op.name.rpartition(".")[2])


def _softmax(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """In longer rows, where these are along the last axis, fill no vectors, and are not short."""
    x, axis = call.args[0], int(call.attrs.axis)
    rank = len(x.ty.shape)
    if rank < 2 or axis not in (-1, rank - 1) or str(x.ty.dtype) != "float32" or not _is_fixed(x):
        return _by_tvm(bb, call)
    columns = int(x.ty.shape[-1])
    if columns < softmax.SHORTEST or columns % LANES == 0:
        return _by_tvm(bb, call)
    return bb.call_te(softmax.softmax_rows, x, primfunc_name_hint="softmax")


def _is_fixed(x: relax.Expr) -> bool:
    return all(isinstance(extent, tirx.IntImm) for extent in x.ty.shape)


def _by_tvm(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    return call.op.get_attr("FLegalize")(bb, call)


def _widened(compute: Compute, name: str) -> Legalize:
    """A function that half-precision numbers take as float32: TVM has no other."""

    def legalize(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        kind = str(call.args[0].ty.dtype)
        if kind not in ordering.SMALL:
            return bb.call_te(compute, *call.args, primfunc_name_hint=name)
        return bb.call_te(
            lambda *xs: topi.cast(compute(*(topi.cast(x, "float32") for x in xs)), kind),
            *call.args,
            primfunc_name_hint=name,
        )

    return legalize


OURS: dict[str, Legalize] = {
    **{f"relax.nn.{name}": _normalised(name) for name in ("group_norm", "instance_norm")},
    **{f"relax.nn.max_pool{count}d": _max_pool for count in (1, 2, 3)},
    "relax.nn.relu": _elementwise(ordering.relu, "relu"),
    "relax.clip": _elementwise(ordering.clip, "clip"),
    "relax.maximum": _chosen(ordering.larger, "maximum"),
    "relax.minimum": _chosen(ordering.smaller, "minimum"),
    "relax.max": _extreme(ordering.LARGEST, "max"),
    "relax.min": _extreme(ordering.SMALLEST, "min"),
    "relax.argmax": _place(topi.argmax, "argmax", nan_last=True),
    "relax.argmin": _place(topi.argmin, "argmin", nan_last=False),
    "relax.sinh": _widened(hyperbolic.sinh, "sinh"),
    "relax.cosh": _widened(hyperbolic.cosh, "cosh"),
    **{
        f"relax.{name}": _widened(getattr(topi, name), name)
        for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "atan2")
    },
}
"""By the operator's name, as ``LegalizeOps`` wants it."""

FAST: dict[str, Legalize] = {"relax.nn.softmax": _softmax}
"""More of these, with fast math on a CPU."""
