"""Tensor expressions on bfloat16 maps, whose bits are uint16: products of pairs, and conversions."""

from __future__ import annotations

from tvm import relax, te, tirx

from workers.tvm_backend.dot.bits import BITS, LEAST_KEY, PAIR, key_of, of_key, rounded, widened
from workers.tvm_backend.passes import ordering
from workers.tvm_backend.passes.layout.compute import (
    convolved,
    first_blocks,
    in_groups,
    in_order,
    interleaved,
    padded,
    panelled,
    summed_in_lanes,
    to_blocked,
)

PATTERN, OUT_ELEMENTWISE, OPAQUE = "op_pattern", 4, 8
"""How TVM may fuse a function: with elementwise ones behind it, not at all."""


def to_bf16(x: te.Tensor) -> te.Tensor:
    """float32 rounded to bfloat16."""
    return te.compute(x.shape, lambda *at: rounded(x(*at)), name="to_bf16")


def from_bf16(x: te.Tensor) -> te.Tensor:
    """bfloat16 as float32."""
    return te.compute(x.shape, lambda *at: widened(x(*at)), name="from_bf16")


def round_to_bf16(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Call:
    """The bits of ``value``, in a call that nothing is fused with: see ``passes.narrow``."""
    return builder.call_te(to_bf16, value, primfunc_name_hint=to_bf16.__name__, primfunc_attrs={PATTERN: OPAQUE})


def to_pairs(x: te.Tensor) -> te.Tensor:
    """[N, C, H, W] of float32 as [N, ceil(C / 2), H, W, 2] of bfloat16; zeros beyond C."""
    pairs = to_blocked(x, PAIR)
    return te.compute(pairs.shape, lambda *at: rounded(pairs(*at)), name="to_pairs")


def max_pool2d_bits(
    x: te.Tensor,
    window: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    shape: tuple[int, ...],
) -> te.Tensor:
    """The largest element of each window, found among whole numbers; NaN where the window has one.

    Args:
        x: bfloat16 [N, CB, H, W, lanes] whose NaN have no sign, as ``to_bf16`` makes them.
        window, strides, dilation: those of height and width.
        padding: top, left, bottom, right.
        shape: extents of the result.

    Returns:
        float32 [N, CB, Y, X, lanes].
    """
    keys = te.compute(x.shape, lambda *at: key_of(x(*at)), name="keys")
    found = ordering.max_pool(keys, window, strides, padding, dilation, shape)
    least = tirx.const(LEAST_KEY, BITS)  # a window may lie in the padding
    return te.compute(shape, lambda *at: widened(of_key(tirx.Max(found(*at), least))), name="max_pool2d_bits")


def conv2d_pairs(
    x: te.Tensor,
    w: te.Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    blocks: int | None = None,
) -> te.Tensor:
    """Convolution of one group, summed in float32.

    Args:
        x: bfloat16 [N, CB, H, W, inner]; inner is even.
        w: bfloat16 [OB, CB, KH, KW, inner / 2, co, 2].
        stride, dilation: stride and dilation of height and width.
        padding: top, left, bottom, right.
        blocks: blocks of the result, OB at most; None: as many.

    Returns:
        float32 [N, blocks, Y, X, co].
    """
    return first_blocks(convolved(_wide(padded(x, padding)), w, stride, dilation, in_order, "conv2d_pairs"), blocks)


def group_conv2d_pairs(
    x: te.Tensor, w: te.Tensor, stride: tuple[int, int], padding: tuple[int, int, int, int], dilation: tuple[int, int]
) -> te.Tensor:
    """Convolution of groups of whole blocks.

    Args:
        x: bfloat16 [N, CB, H, W, inner].
        w: bfloat16 [OB, CB / groups, KH, KW, inner / 2, co, 2].

    Returns:
        float32 [N, OB, Y, X, co].
    """
    return convolved(_wide(padded(x, padding)), w, stride, dilation, in_groups(x, w), "group_conv2d_pairs")


def matmul_pairs(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    """Product with weights in panels of columns, summed in float32.

    Args:
        x: bfloat16 [..., K / 2, 2].
        w: bfloat16 [N / lanes, K / 2, lanes, 2].

    Returns:
        float32 [..., N].
    """
    return panelled(_wide(x), w, "matmul_pairs")


def group_matmul_pairs(w: te.Tensor, x: te.Tensor) -> te.Tensor:
    """Product for each group, summed in float32.

    Args:
        w: bfloat16 [G, M, steps, 2]; zeros beyond K.
        x: bfloat16 [G, K, pixels].

    Returns:
        float32 [G, M, pixels].
    """
    pixels = interleaved(x, *(int(extent) for extent in w.shape[2:]))
    return summed_in_lanes(_wide(w), _wide(pixels, "wide_pixels"), "group_matmul_pairs")


def _wide(x: te.Tensor, name: str = "wide") -> te.Tensor:
    """bfloat16 as float32, in a stage of its own: inlined where an instruction takes bits."""
    return te.compute(x.shape, lambda *at: widened(x(*at)), name=name)
