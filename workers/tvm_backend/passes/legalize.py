"""Lowerings of operators that take the place of TVM's own, where those lose the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx

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


OURS: dict[str, Legalize] = {f"relax.nn.{name}": _normalised(name) for name in ("group_norm", "instance_norm")}
"""By the operator's name, as ``LegalizeOps`` wants it."""
