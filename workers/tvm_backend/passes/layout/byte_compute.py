"""Tensor expressions on maps of codes, bytes on a grid: products of quads, and conversions.

Scales, inverses and zeros are tensors without axes; a zero is the code of zero in float32.
"""

from __future__ import annotations

from typing import Any

from tvm import te

from workers.tvm_backend.dot.codes import CODES, decoded, encoded
from workers.tvm_backend.passes.layout.compute import (
    convolved,
    depthwise_conv2d_blocked,
    first_blocks,
    in_groups,
    in_order,
    interleaved,
    padded,
    panelled,
    summed_in_lanes,
)


def to_codes(x: te.Tensor, inverse: te.Tensor, zero: te.Tensor, top: int) -> te.Tensor:
    """float32 as the codes of the nearest numbers of a grid; ``top`` is the last one."""
    return te.compute(x.shape, lambda *at: encoded(x(*at), inverse(), zero(), top), name="to_codes")


def from_codes(x: te.Tensor, scale: te.Tensor, zero: te.Tensor) -> te.Tensor:
    """Codes as float32."""
    return te.compute(x.shape, lambda *at: decoded(x(*at), scale(), zero()), name="from_codes")


def conv2d_quads(
    x: te.Tensor,
    w: te.Tensor,
    zero: te.Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    blocks: int | None = None,
) -> te.Tensor:
    """Convolution of one group: sums of codes times weights.

    Args:
        x: codes [N, CB, H, W, inner]; inner is a multiple of four. The border is the code of zero.
        w: int8 [OB, CB, KH, KW, inner / 4, co, 4].
        stride, dilation: stride and dilation of height and width.
        padding: top, left, bottom, right.
        blocks: blocks of the result, OB at most; None: as many.

    Returns:
        int32 [N, blocks, Y, X, co].
    """
    sums = convolved(padded(x, padding, _code(zero)), w, stride, dilation, in_order, "conv2d_quads")
    return first_blocks(sums, blocks)


def group_conv2d_quads(
    x: te.Tensor,
    w: te.Tensor,
    zero: te.Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
) -> te.Tensor:
    """Convolution of groups of whole blocks.

    Args:
        x: codes [N, CB, H, W, inner].
        w: int8 [OB, CB / groups, KH, KW, inner / 4, co, 4].

    Returns:
        int32 [N, OB, Y, X, co].
    """
    return convolved(padded(x, padding, _code(zero)), w, stride, dilation, in_groups(x, w), "group_conv2d_quads")


def matmul_quads(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    """Product with weights in panels of columns.

    Args:
        x: codes [..., K / 4, 4].
        w: int8 [N / lanes, K / 4, lanes, 4].

    Returns:
        int32 [..., N].
    """
    return panelled(x, w, "matmul_quads")


def group_matmul_quads(w: te.Tensor, x: te.Tensor) -> te.Tensor:
    """Product for each group.

    Args:
        w: int8 [G, M, ceil(K / 4), 4].
        x: codes [G, K, pixels].

    Returns:
        int32 [G, M, pixels].
    """
    return summed_in_lanes(w, interleaved(x, *(int(extent) for extent in w.shape[2:])), "group_matmul_quads")


def scaled(sums: te.Tensor, zeros: te.Tensor, scales: te.Tensor) -> te.Tensor:
    """Sums of codes as the numbers that they stand for.

    Args:
        sums: whole numbers, int32 or float32.
        zeros: what the code of zero adds to a channel's sum; of the type of ``sums``, to whose shape it broadcasts.
        scales: the value of one step, float32; of a shape that broadcasts, too.
    """
    return te.compute(sums.shape, lambda *at: _from_zero(sums, zeros, at) * _spread(scales, at), name="scaled")


def requantized(sums: te.Tensor, zeros: te.Tensor, factors: te.Tensor, zero: te.Tensor, top: int) -> te.Tensor:
    """Sums of codes as codes of another grid, whose last one is ``top``: one multiply-add and one rounding.

    Args:
        sums, zeros: as above; ``zeros`` less what is added to each channel.
        factors: one step in those of the other grid, float32; its shape broadcasts.
        zero: the other grid's code of zero.
    """

    def value(*at: Any) -> Any:
        return encoded(_from_zero(sums, zeros, at), _spread(factors, at), zero(), top)

    return te.compute(sums.shape, value, name="requantized")


def depthwise_conv2d_codes(
    x: te.Tensor,
    w: te.Tensor,
    scale: te.Tensor,
    zero: te.Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
) -> te.Tensor:
    """Convolution of each channel by itself, in float32.

    Args:
        x: codes [N, CB, H, W, LANES].
        w: float32 [CB, KH, KW, LANES].

    Returns:
        float32 [N, CB, Y, X, LANES].
    """
    return depthwise_conv2d_blocked(from_codes(x, scale, zero), w, stride, padding, dilation)


def _from_zero(sums: te.Tensor, zeros: te.Tensor, at: tuple[Any, ...]) -> Any:
    """A sum less what the code of zero adds to it."""
    return (sums(*at) - _spread(zeros, at)).astype("float32")


def _spread(tensor: te.Tensor, at: tuple[Any, ...]) -> Any:
    """The element at ``at`` of a tensor that is broadcast, as NumPy does."""
    near = at[len(at) - len(tensor.shape) :]
    return tensor(*(0 if int(extent) == 1 else each for each, extent in zip(near, tensor.shape, strict=True)))


def _code(zero: te.Tensor) -> Any:
    """The code of zero as a code."""
    return zero().astype("int32").astype(CODES)
