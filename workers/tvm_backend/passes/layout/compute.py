"""What the layout pass emits instead of the plain operators: tensor expressions over blocked and packed tensors.

A blocked feature map is ``[N, ceil(C / LANES), H, W, LANES]``, channels beyond C hold whatever the arithmetic makes of
zero weights. The names of these functions are those of the tasks; the rules of ``design_space.rules`` recognise the
blocks by their structure, not by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from workers.tvm_backend.dot.bits import BITS, widened
from workers.tvm_backend.dot.codes import CODES, WEIGHTS

LANES = 16
"""Channels of a block on every CPU: one AVX-512 register of floats, two of AVX2, four of NEON."""


SourceOf = Callable[[Any, Any], Any]
"""From an output block and the number of a block of weights to a block of the input."""


def in_order(_: Any, block: Any) -> Any:
    """The input block of a convolution of one group: that of the weights."""
    return block


def conv2d_blocked(
    x: te.Tensor, w: te.Tensor, stride: tuple[int, int], padding: tuple[int, int, int, int], dilation: tuple[int, int]
) -> te.Tensor:
    """Convolution of one group.

    Args:
        x: [N, CB, H, W, ci]; ci is LANES, or 1 where a plain map is read as it lies.
        w: [OB, CB, KH, KW, ci, co].
        stride, dilation: stride and dilation of height and width.
        padding: top, left, bottom, right.

    Returns:
        [N, OB, Y, X, co].
    """
    return convolved(padded(x, padding), w, stride, dilation, in_order, "conv2d_blocked")


def group_conv2d_blocked(
    x: te.Tensor, w: te.Tensor, stride: tuple[int, int], padding: tuple[int, int, int, int], dilation: tuple[int, int]
) -> te.Tensor:
    """Convolution of groups of whole blocks.

    Args:
        x: [N, CB, H, W, LANES].
        w: [OB, CB / groups, KH, KW, LANES, LANES].

    Returns:
        [N, OB, Y, X, LANES].
    """
    return convolved(padded(x, padding), w, stride, dilation, in_groups(x, w), "group_conv2d_blocked")


def in_groups(x: te.Tensor, w: te.Tensor) -> SourceOf:
    """Where the blocks of a group are among those of ``x``."""
    blocks = int(w.shape[1])
    share = int(w.shape[0]) * blocks // int(x.shape[1])  # output blocks of a group
    return lambda out, block: out // share * blocks + block


def convolved(
    source: te.Tensor,
    w: te.Tensor,
    stride: tuple[int, int],
    dilation: tuple[int, int],
    source_of: SourceOf,
    name: str,
) -> te.Tensor:
    """Convolution of a map that is padded already; weights may be in pairs or quads of channels.

    Args:
        source: [N, CB, H, W, inner].
        w: [OB, CB, KH, KW, inner, co], or [OB, CB, KH, KW, inner / g, co, g] where g of them share a 32-bit lane.
        source_of: gives the input block for an output block and the number of a block of weights.
    """
    n, _, height, width, _ = (int(d) for d in source.shape)
    outs, blocks, kh, kw, inner, lanes, *group = (int(d) for d in w.shape)
    out_h = extent(height, kh, stride[0], (), dilation[0])
    out_w = extent(width, kw, stride[1], (), dilation[1])
    sizes = zip((blocks, kh, kw, inner, *group), ("cb", "ky", "kx", "ci", "s"), strict=False)
    cb, ky, kx, ci, *s = (te.reduce_axis((0, size), axis) for size, axis in sizes)

    def value(b: Any, o: Any, y: Any, c: Any, lane: Any) -> Any:
        row, column = y * stride[0] + ky * dilation[0], c * stride[1] + kx * dilation[1]
        pixel = source[b, source_of(o, cb), row, column, ci * group[0] + s[0] if group else ci]
        place = (o, cb, ky, kx, ci, lane, *s)
        return te.sum(multiplied(pixel, w[place]), axis=[cb, ky, kx, ci, *s])

    return te.compute((n, outs, out_h, out_w, lanes), value, name=name)


def first_blocks(x: te.Tensor, blocks: int | None) -> te.Tensor:
    """The first blocks of channels of a map [N, CB, H, W, lanes]; the map itself where it has no more."""
    n, every, *rest = (int(extent) for extent in x.shape)
    return x if blocks in (None, every) else te.compute((n, blocks, *rest), lambda *at: x(*at), name=f"{x.op.name}_cut")


def multiplied(value: Any, other: Any) -> Any:
    """A value times one of its own type, or one of the bits of bfloat16; of bytes the product is an int32."""
    if str(other.dtype) == BITS:
        return value * widened(other)
    return value.astype("int32") * other.astype("int32") if str(other.dtype) in (WEIGHTS, CODES) else value * other


def depthwise_conv2d_blocked(
    x: te.Tensor, w: te.Tensor, stride: tuple[int, int], padding: tuple[int, int, int, int], dilation: tuple[int, int]
) -> te.Tensor:
    """Convolution of each channel by itself.

    Args:
        x: [N, CB, H, W, LANES].
        w: [CB, KH, KW, LANES].

    Returns:
        [N, CB, Y, X, LANES].
    """
    n, blocks, height, width, lanes = (int(d) for d in x.shape)
    _, kh, kw, _ = (int(d) for d in w.shape)
    source = padded(x, padding)
    out_h, out_w = (
        extent(height, kh, stride[0], padding[0::2], dilation[0]),
        extent(width, kw, stride[1], padding[1::2], dilation[1]),
    )
    ky, kx = te.reduce_axis((0, kh), "ky"), te.reduce_axis((0, kw), "kx")

    def value(b: Any, o: Any, y: Any, c: Any, lane: Any) -> Any:
        pixel = source[b, o, y * stride[0] + ky * dilation[0], c * stride[1] + kx * dilation[1], lane]
        return te.sum(pixel * w[o, ky, kx, lane], axis=[ky, kx])

    return te.compute((n, blocks, out_h, out_w, lanes), value, name="depthwise_conv2d_blocked")


def depthwise_conv2d_rows(
    x: te.Tensor, w: te.Tensor, down: int, padding: tuple[int, int, int, int], dilation: tuple[int, int]
) -> te.Tensor:
    """Convolution of each channel by itself on plain maps, whose rows are computed in whole vectors and then cut.

    Args:
        x: [N, C, H, W].
        w: [C, 1, KH, KW].
        down: stride of the height; that of the width is one.
        padding: top, left, bottom, right.
        dilation: dilation of height and width.

    Returns:
        [N, C, Y, X].
    """
    n, channels, height, width = (int(d) for d in x.shape)
    _, _, kh, kw = (int(d) for d in w.shape)
    (dy, dx), (top, left, bottom, _) = dilation, padding
    out_h, out_w = extent(height, kh, down, padding[0::2], dy), extent(width, kw, 1, padding[1::2], dx)
    lanes = LANES if out_w > LANES // 2 else LANES // 2
    wide = -(-out_w // lanes) * lanes

    def border(b: Any, c: Any, y: Any, z: Any) -> Any:
        inside = tirx.all(y >= top, y < height + top, z >= left, z < width + left)
        return tirx.if_then_else(inside, x[b, c, y - top, z - left], tirx.const(0, x.dtype))

    source = te.compute((n, channels, height + top + bottom, wide + dx * (kw - 1)), border, name="padded")
    ky, kx = te.reduce_axis((0, kh), "ky"), te.reduce_axis((0, kw), "kx")

    def value(b: Any, c: Any, y: Any, z: Any) -> Any:
        return te.sum(source[b, c, y * down + ky * dy, z + kx * dx] * w[c, 0, ky, kx], axis=[ky, kx])

    full = te.compute((n, channels, out_h, wide), value, name="depthwise_conv2d_rows")
    return te.compute((n, channels, out_h, out_w), lambda *at: full(*at), name="cut")


def matmul_packed(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    """Product with weights in panels of columns.

    Args:
        x: [..., K].
        w: [N / lanes, K, lanes].

    Returns:
        [..., N].
    """
    panels, depth, lanes = (int(d) for d in w.shape)
    k = te.reduce_axis((0, depth), "k")

    def value(*at: Any) -> Any:
        row, column = (*at[:-1], k), at[-1]
        return te.sum(x[row] * w[column // lanes, k, column % lanes], axis=k)

    return te.compute((*x.shape[:-1], panels * lanes), value, name="matmul_packed")


def panelled(x: te.Tensor, w: te.Tensor, name: str) -> te.Tensor:
    """Product with weights in panels of columns, of which some steps share a 32-bit lane.

    Args:
        x: [..., K / g, g].
        w: [N / lanes, K / g, lanes, g].

    Returns:
        [..., N].
    """
    panels, depth, lanes, group = (int(d) for d in w.shape)
    k, s = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, group), "s")

    def value(*at: Any) -> Any:
        row, column = (*at[:-1], k, s), at[-1]
        return te.sum(multiplied(x[row], w[column // lanes, k, column % lanes, s]), axis=[k, s])

    return te.compute((*x.shape[:-2], panels * lanes), value, name=name)


def group_matmul(w: te.Tensor, x: te.Tensor) -> te.Tensor:
    """Product for each group.

    Args:
        w: [G, M, K].
        x: [G, K, pixels].

    Returns:
        [G, M, pixels].
    """
    groups, rows, depth = (int(d) for d in w.shape)
    k = te.reduce_axis((0, depth), "k")
    return te.compute(
        (groups, rows, x.shape[2]), lambda g, m, p: te.sum(w[g, m, k] * x[g, k, p], axis=k), name="group_matmul"
    )


def summed_in_lanes(w: te.Tensor, x: te.Tensor, name: str) -> te.Tensor:
    """Product for each group, of which some steps share a 32-bit lane.

    Args:
        w: [G, M, K / g, g].
        x: [G, K / g, pixels, g].

    Returns:
        [G, M, pixels].
    """
    groups, rows, depth, share = (int(d) for d in w.shape)
    k, s = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, share), "s")

    def value(g: Any, m: Any, p: Any) -> Any:
        return te.sum(multiplied(w[g, m, k, s], x[g, k, p, s]), axis=[k, s])

    return te.compute((groups, rows, x.shape[2]), value, name=name)


def interleaved(x: te.Tensor, steps: int, share: int) -> te.Tensor:
    """[G, K, pixels] as [G, steps, pixels, share]; zeros beyond K, which ``steps`` times ``share`` reach."""
    groups, depth, pixels = (int(d) for d in x.shape)

    def value(g: Any, k: Any, p: Any, s: Any) -> Any:
        row = k * share + s
        if depth == steps * share:
            return x[g, row, p]
        return tirx.if_then_else(row < depth, x[g, row, p], tirx.const(0, x.dtype))

    return te.compute((groups, steps, pixels, share), value, name="interleaved")


def group_norm(x: te.Tensor, gamma: te.Tensor, beta: te.Tensor, epsilon: float) -> te.Tensor:
    """Each group with mean 0 and variance 1, then scaled and shifted (Wu and He, "Group normalization", 2018).

    Args:
        x: [N, G, C, M].
        gamma, beta: [G, C].

    Returns:
        [N, G, C, M].
    """
    n, groups, channels, size = (int(d) for d in x.shape)
    share = tirx.const(1.0 / (channels * size), x.dtype)

    def reduced(name: str, value: Any) -> te.Tensor:
        c, m = te.reduce_axis((0, channels), "c"), te.reduce_axis((0, size), "m")
        return te.compute((n, groups), lambda b, g: te.sum(value(b, g, c, m), axis=[c, m]), name=name)

    total = reduced("group_sum", lambda b, g, c, m: x[b, g, c, m])

    def distance(b: Any, g: Any, c: Any, m: Any) -> Any:
        return x[b, g, c, m] - total[b, g] * share

    squares = reduced("group_squares", lambda *at: distance(*at) * distance(*at))
    return te.compute(
        (n, groups, channels, size),
        lambda b, g, c, m: (
            distance(b, g, c, m) * tirx.rsqrt(squares[b, g] * share + tirx.const(epsilon, x.dtype)) * gamma[g, c]
            + beta[g, c]
        ),
        name="group_norm",
    )


def gathered_slices(
    x: te.Tensor, depth: int, size: int, stride: int, dilation: int, front: int, back: int
) -> te.Tensor:
    """The slices that a window covers, next to one another as channels; zeros where it covers none.

    Args:
        x: [N depth, C, H, W] or [N depth, CB, H, W, LANES].
        size, stride, dilation: size, stride and dilation of the window, along the depth.
        front, back: slices added.

    Returns:
        [N windows, size C, H, W] or [N windows, size CB, H, W, LANES].
    """
    slices, channels, *rest = (int(d) for d in x.shape)
    windows = extent(depth, size, stride, (front, back), dilation)

    def value(b: Any, k: Any, *at: Any) -> Any:
        source = b % windows * stride + k // channels * dilation - front
        place = (b // windows * depth + source, k % channels, *at)
        pixel = x[place]
        if not front and not back:
            return pixel
        return tirx.if_then_else(tirx.all(source >= 0, source < depth), pixel, tirx.const(0, x.dtype))

    return te.compute((slices // depth * windows, size * channels, *rest), value, name="gathered_slices")


def to_blocked(x: te.Tensor, lanes: int = LANES) -> te.Tensor:
    """[N, C, H, W] in blocks of channels; zeros beyond C."""
    n, channels, height, width = (int(d) for d in x.shape)
    blocks = -(-channels // lanes)

    def value(b: Any, o: Any, y: Any, c: Any, lane: Any) -> Any:
        channel = o * lanes + lane
        if channels % lanes == 0:
            return x[b, channel, y, c]
        return tirx.if_then_else(channel < channels, x[b, channel, y, c], tirx.const(0, x.dtype))

    return te.compute((n, blocks, height, width, lanes), value, name="to_blocked")


def to_plain(x: te.Tensor, channels: int) -> te.Tensor:
    """[N, CB, H, W, lanes] as [N, channels, H, W]."""
    n, _, height, width, lanes = (int(d) for d in x.shape)
    return te.compute(
        (n, channels, height, width), lambda b, c, y, z: x[b, c // lanes, y, z, c % lanes], name="to_plain"
    )


def padded(x: te.Tensor, padding: tuple[int, int, int, int], fill: Any = None) -> te.Tensor:
    """A border around the rows and columns of a feature map, blocked or not; the tensor itself where there is none.

    Args:
        fill: value of the border; None: zero.
    """
    if not any(padding):
        return x
    top, left, bottom, right = padding
    n, blocks, height, width, *lanes = (int(d) for d in x.shape)
    border = tirx.const(0, x.dtype) if fill is None else fill

    def value(b: Any, o: Any, y: Any, c: Any, *lane: Any) -> Any:
        inside = tirx.all(y >= top, y < height + top, c >= left, c < width + left)
        return tirx.if_then_else(inside, x(b, o, y - top, c - left, *lane), border)

    return te.compute((n, blocks, height + top + bottom, width + left + right, *lanes), value, name="padded")


def extent(size: int, kernel: int, stride: int, padding: tuple[int, ...], dilation: int) -> int:
    """Rows or columns of a convolution's result; ``padding`` holds those before and after."""
    return (size + sum(padding) - dilation * (kernel - 1) - 1) // stride + 1
