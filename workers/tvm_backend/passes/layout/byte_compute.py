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


def scaled_groups(sums: te.Tensor, zeros: te.Tensor, scales: te.Tensor) -> te.Tensor:
    """Sums of codes as the numbers that they stand for.

    Args:
        sums: int32 [G, M, pixels].
        zeros: int32 [G, M], what the code of zero adds to a channel's sum.
        scales: float32 [G, M].
    """

    def value(g: Any, m: Any, p: Any) -> Any:
        return (sums[g, m, p] - zeros[g, m]).astype("float32") * scales[g, m]

    return te.compute(sums.shape, value, name="scaled_groups")


def scaled_map(sums: te.Tensor, zeros: te.Tensor, scales: te.Tensor) -> te.Tensor:
    """Sums of codes as the numbers that they stand for.

    Args:
        sums: int32 [N, OB, Y, X, lanes].
        zeros: int32 [OB, lanes], what the code of zero adds to a channel's sum.
        scales: float32 [OB, lanes].
    """

    def value(b: Any, o: Any, y: Any, x: Any, lane: Any) -> Any:
        return (sums[b, o, y, x, lane] - zeros[o, lane]).astype("float32") * scales[o, lane]

    return te.compute(sums.shape, value, name="scaled_map")


def scaled_sums(sums: te.Tensor, zeros: te.Tensor, scales: te.Tensor) -> te.Tensor:
    """The same of sums in float32.

    Args:
        sums: float32 [N, OB, Y, X, lanes], or [N, O, Y, X]; whole numbers.
        zeros, scales: float32 [OB, lanes], or [O].
    """

    def value(b: Any, o: Any, y: Any, x: Any, *lane: Any) -> Any:
        return (sums(b, o, y, x, *lane) - zeros(o, *lane)) * scales(o, *lane)

    return te.compute(sums.shape, value, name="scaled_sums")


def scaled_rows(sums: te.Tensor, zeros: te.Tensor, scales: te.Tensor) -> te.Tensor:
    """The same of rows.

    Args:
        sums: int32 [..., N].
        zeros: int32 [N].
        scales: float32 [N].
    """

    def value(*at: Any) -> Any:
        return (sums(*at) - zeros[at[-1]]).astype("float32") * scales[at[-1]]

    return te.compute(sums.shape, value, name="scaled_rows")


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


def _code(zero: te.Tensor) -> Any:
    """The code of zero as a code."""
    return zero().astype("int32").astype(CODES)
