"""Networks whose layouts are worth a test: one for each kind of operator, and random ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from small_nets import Net

Outputs = list[str]


def odd_channels(net: Net) -> Outputs:
    y = net.op("Relu", net.conv("x", 20, pads=[1, 0, 2, 1], strides=[2, 1]))
    return [net.conv(y, 9, pads=[2] * 4, dilations=[2, 2])]


def image(net: Net) -> Outputs:
    y = net.op("Relu", net.conv("x", 16, 7, strides=[2, 2]))
    y = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = net.op("Flatten", net.op("GlobalAveragePool", net.conv(y, 32, 1)))
    return [net.op("Gemm", y, net.random(12, 32), net.random(12), transB=1)]


def residual(net: Net) -> Outputs:
    y = net.op("Relu", net.op("Add", net.conv("x", 16), "x"))
    for _ in range(2):
        inner = net.norm(net.conv(net.op("Relu", net.norm(net.conv(y, 16))), 16))
        y = net.op("Relu", net.op("Add", inner, y))
    return [net.op("Add", net.conv(y, 24, 1, strides=[2, 2]), net.conv(y, 24, strides=[2, 2]))]


def fire(net: Net) -> Outputs:
    y = net.op("Relu", net.conv("x", 12))
    y = net.op("Concat", net.op("Relu", net.conv(y, 16, 1)), net.op("Relu", net.conv(y, 20)), axis=1)
    return [net.op("GlobalAveragePool", net.conv(net.op("Dropout", y), 10, 1))]


def ragged_concat(net: Net) -> Outputs:
    y = net.op("Concat", net.conv("x", 12), net.conv("x", 16), axis=1)
    return [net.conv(y, 16)]


def separable(net: Net) -> Outputs:
    y = net.clip(net.conv("x", 24, strides=[2, 2]), 0.0, 6.0)
    for stride in (1, 2):
        y = net.clip(net.depthwise(y, strides=[stride] * 2), 0.0, 6.0)
        y = net.conv(y, 24, 1)
    y = net.op("Add", net.conv(net.clip(net.depthwise(y, 5), 0.0, 6.0), 24, 1), y)
    return [net.op("ReduceMean", y, axes=[2, 3], keepdims=0)]


def squeeze_and_excite(net: Net) -> Outputs:
    y = net.op("HardSwish", net.conv("x", 24))
    gate = net.op("Relu", net.conv(net.op("GlobalAveragePool", y), 8, 1))
    gate = net.op("HardSigmoid", net.conv(gate, 24, 1), alpha=0.2, beta=0.5)
    return [net.conv(net.op("Mul", y, gate), 16)]


def dense_gate(net: Net) -> Outputs:
    y = net.conv("x", 32)
    y = net.op("Mul", net.op("Sigmoid", y), y)
    gate = net.op("Gemm", net.op("ReduceMean", y, axes=[-2, -1], keepdims=0), net.random(32, 32), net.random(32))
    gate = net.op("Reshape", net.op("Sigmoid", gate), net.constant([1, 32, 1, 1]))
    return [net.conv(net.op("Mul", gate, y), 16)]


def before_activation(net: Net) -> Outputs:
    y = net.conv("x", 16)
    for _ in range(2):
        more = net.conv(net.op("Relu", net.norm(y)), 16)
        y = net.op("Concat", y, more, axis=1)
    return [net.op("Relu", net.norm(y))]


def pools(net: Net) -> Outputs:
    negative = net.op("Sub", net.conv("x", 20), net.constant(np.float32(9.0)))
    window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    tops = net.op("MaxPool", negative, **window, ceil_mode=1)
    with_pad = net.op("AveragePool", negative, **window, count_include_pad=1)
    without = net.op("AveragePool", negative, **window, count_include_pad=0)
    return [net.conv(tops, 8), net.conv(net.op("Add", with_pad, without), 8)]


def constants(net: Net) -> Outputs:
    y = net.op("Mul", net.op("Relu", net.conv("x", 20)), net.random(20, 1, 1))
    y = net.op("Add", net.op("Sub", net.constant(np.float32(1.5)), y), net.random(1, 1, 7, 6))
    y = net.op("Div", y, net.constant(net.rng.uniform(1, 2, (1, 20, 1, 1))))
    return [net.conv(net.op("Tanh", net.op("LeakyRelu", y, alpha=0.1)), 16)]


def one_channel(net: Net) -> Outputs:
    y = net.conv("x", 20)
    return [net.conv(net.op("Mul", y, net.op("Sigmoid", net.conv(y, 1))), 16)]


def steep(net: Net) -> Outputs:
    y = net.conv("x", 16)
    y = net.op("Div", net.op("Exp", y), net.op("Exp", net.op("Abs", y)))
    return [net.conv(net.op("Log", net.op("Exp", net.conv(y, 20))), 16)]


def both_ways(net: Net) -> Outputs:
    y = net.conv("x", 20)
    turned = net.op("Transpose", y, perm=[0, 1, 3, 2])
    return [net.op("Add", net.conv(y, 16), net.conv(turned, 16)), net.op("Softmax", y, axis=3), y]


def groups(net: Net) -> Outputs:
    return [net.conv(net.op("Relu", net.conv(net.conv("x", 24), 24, group=2)), 16)]


def groups_of_blocks(net: Net) -> Outputs:
    """Groups that fill blocks, and two and four of which do."""
    y = net.op("Relu", net.conv(net.conv("x", 64), 64, group=2, strides=[2, 1]))
    y = net.op("Relu", net.op("Add", net.conv(y, 64, group=16), y))
    return [net.conv(net.conv(y, 128, 5, group=8), 16)]


def up(net: Net, y: str, out: int, kernel: int, stride: int, **attributes: object) -> str:
    """A transposed convolution with bias."""
    weight = net.random(net.shapes[y][1], out, kernel, kernel)
    return net.op("ConvTranspose", y, weight, net.random(out), strides=[stride] * 2, **attributes)


def transposed(net: Net) -> Outputs:
    """Doubled as in a U-Net, and as generators do it, with kernels that phases do not share out evenly."""
    below = net.op("Relu", net.conv("x", 32, strides=[2, 2]))
    y = net.conv(net.op("Concat", net.op("Relu", up(net, below, 16, 2, 2)), "x", axis=1), 16)
    y = net.op("Relu", net.norm(up(net, y, 20, 4, 2, pads=[1] * 4)))
    image = net.op("Tanh", up(net, y, 3, 3, 2, pads=[1] * 4, output_padding=[1, 1]))
    return [image, up(net, y, 16, 5, 3, pads=[0, 2, 3, 1])]


def pad(net: Net, y: str, *widths: int, value: float = 0.0, **attributes: object) -> str:
    """Before and then after each axis."""
    return net.op("Pad", y, net.constant(np.array(widths)), net.constant(np.float32(value)), **attributes)


def padded(net: Net) -> Outputs:
    """As other frameworks pad, and in ways that a convolution cannot."""
    none = [0] * 4
    y = net.op("Relu", net.conv(pad(net, "x", 0, 0, 1, 0, 0, 0, 2, 1), 16, pads=none, strides=[2, 2]))
    wide = pad(net, y, 0, 0, 1, 1, 0, 0, 1, 1)
    y = net.op("Add", net.depthwise(wide, pads=none), net.conv(wide, 16, pads=none))
    odd = [
        pad(net, y, 0, 0, 1, 1, 0, 0, 1, 1, value=0.5),
        pad(net, y, 0, 0, 1, 1, 0, 0, 1, 1, mode="reflect"),
        pad(net, y, 0, 0, -1, 1, 0, 0, 1, 1),
        pad(net, y, 0, 1, 0, 0, 0, 2, 0, 0),
    ]
    return [net.conv(each, 8, pads=none) for each in odd]


def causal(net: Net) -> Outputs:
    y = net.op("Relu", net.op("Conv", pad(net, "x", 0, 0, 4, 0, 0, 0), net.random(32, 20, 3), dilations=[2]))
    return [net.op("Conv", pad(net, y, 0, 0, 2, 0, 0, 0), net.random(16, 32, 3))]


def halves(net: Net) -> Outputs:
    """Channels that go different ways, in whole blocks and not."""
    y = net.op("PRelu", net.conv("x", 40), net.random(40, 1, 1))
    ends = [-99, 16, 1], [16, 999, -3]
    first, last = ([net.constant(np.array([number])) for number in each] for each in ends)
    kept, rest = net.op("Slice", y, *first), net.op("Slice", y, *last)
    y = net.op("Concat", kept, net.op("PRelu", net.conv(rest, 24), net.constant(np.full((1, 1, 1), 0.2))), axis=1)
    odd = net.op("Slice", y, *(net.constant(np.array([number])) for number in (8, 40, 1)))
    return [net.conv(y, 16), net.conv(odd, 16), net.op("Slice", y, *(net.constant(np.array([n])) for n in (1, 5, 2)))]


def resize(net: Net, y: str, *scales: float, **attributes: object) -> str:
    """Rows and columns interpolated."""
    return net.op("Resize", y, net.constant(np.zeros(0)), net.constant(np.array([1.0, 1.0, *scales])), **attributes)


def resized(net: Net) -> Outputs:
    """As a pyramid of features does it, as a segmentation does, and on the way out."""
    y = net.conv("x", 20)
    for mode in ("half_pixel", "asymmetric"):
        y = net.conv(resize(net, y, 2, 3, mode="nearest", coordinate_transformation_mode=mode), 20, strides=[2, 3])
    y = net.conv(resize(net, y, 1.5, 2, mode="linear", coordinate_transformation_mode="align_corners"), 16, 1)
    whole = resize(net, net.op("Softmax", y, axis=3), 3, 2, mode="nearest", nearest_mode="round_prefer_ceil")
    ragged = net.conv(resize(net, y, 0.4, 0.4, mode="linear"), 16)
    return [resize(net, y, 2, 2.5, mode="cubic"), whole, resize(net, ragged, 1.3, 1.7, mode="nearest")]


def one_row(net: Net) -> Outputs:
    """A temporal network."""

    def conv(y: str, out: int, kernel: int, group: int = 1, **attributes: object) -> str:
        return net.op(
            "Conv", y, net.random(out, net.shapes[y][1] // group, kernel), net.random(out), group=group, **attributes
        )

    y = net.op("Relu", net.norm(conv("x", 32, 5, pads=[2, 2])))
    y = net.op("Add", net.op("Relu", conv(y, 32, 3, pads=[2, 2], dilations=[2])), y)
    y = net.op("MaxPool", conv(y, 32, 3, group=32, pads=[1, 1]), kernel_shape=[2], strides=[2])
    y = net.op("Mul", net.op("AveragePool", y, kernel_shape=[3], pads=[1, 1]), net.constant(np.float32(0.5)))
    wide = net.op("ConvTranspose", y, net.random(32, 16, 4), net.random(16), strides=[2], pads=[1, 1])
    return [net.op("Softmax", wide, axis=1), net.op("ReduceMean", wide, axes=[2], keepdims=0)]


def shuffled(net: Net) -> Outputs:
    y = net.op("Relu", net.conv("x", 24, 1, group=3))
    for _ in range(2):
        z = net.op("Relu", net.conv(y, 12, 1, group=3))
        z = net.op("Reshape", z, net.constant([1, 3, 4, 6, 5]))
        z = net.op("Reshape", net.op("Transpose", z, perm=[0, 2, 1, 3, 4]), net.constant([1, 12, 6, 5]))
        z = net.op("Mul", net.conv(net.depthwise(z), 24, 1, group=3), net.constant(np.float32(0.5)))
        y = net.op("Relu", net.op("Add", z, y))
    y = net.op("Concat", y, net.op("Add", net.conv(y, 8, 1, group=2), net.random(1, 1, 6, 5)), axis=1)
    return [net.conv(y, 16)]


def products(net: Net) -> Outputs:
    y = net.op("Relu", net.op("Add", net.op("MatMul", "x", net.random(10, 48)), net.random(48)))
    y = net.op("MatMul", net.op("MatMul", y, net.random(48, 12)), net.random(12, 10))
    return [net.op("Add", y, "x")]


def regrouped_rows(net: Net) -> Outputs:
    y = net.op("Reshape", "x", net.constant([14, 12]))
    y = net.op("Add", net.op("MatMul", y, net.random(12, 16)), net.random(1, 16))
    y = net.op("Mul", net.op("Sigmoid", y), y)
    y = net.op("Mul", net.op("MatMul", y, net.random(16, 8)), net.random(14, 1))  # one factor for each row
    three = net.op("Reshape", y, net.constant([7, 2, 8]))
    return [net.op("MatMul", net.op("Sub", net.constant(np.float32(2.0)), three), net.random(8, 12)), y]


CASES: list[tuple[Callable[[Net], Outputs], tuple[int, ...], int, tuple[int, int]]] = [
    # network, extents of its input, functions that are blocked or packed, conversions into blocks and back
    (odd_channels, (1, 5, 9, 7), 2, (0, 1)),
    (image, (1, 3, 13, 14), 3, (0, 0)),
    (residual, (2, 16, 6, 6), 7, (1, 1)),
    (fire, (1, 16, 5, 6), 4, (0, 1)),
    (ragged_concat, (1, 16, 5, 5), 3, (0, 3)),
    (separable, (1, 3, 12, 12), 7, (0, 1)),
    (squeeze_and_excite, (1, 16, 5, 7), 4, (0, 1)),
    (dense_gate, (1, 16, 5, 5), 3, (0, 1)),
    (before_activation, (1, 16, 5, 4), 3, (0, 1)),
    (pools, (1, 16, 7, 6), 3, (0, 2)),
    (constants, (1, 16, 7, 6), 2, (0, 1)),
    (one_channel, (1, 16, 5, 5), 2, (0, 2)),
    (steep, (1, 16, 4, 4), 3, (0, 2)),
    (both_ways, (1, 16, 6, 6), 3, (0, 2)),
    (groups, (1, 16, 6, 6), 2, (0, 2)),
    (shuffled, (1, 12, 6, 5), 1, (0, 1)),
    (groups_of_blocks, (1, 32, 6, 5), 5, (0, 1)),
    (transposed, (1, 16, 6, 8), 6, (0, 4)),
    (resized, (1, 16, 6, 4), 5, (0, 3)),
    (padded, (1, 16, 8, 8), 7, (0, 5)),
    (causal, (1, 20, 12), 2, (0, 1)),
    (halves, (1, 16, 6, 5), 4, (0, 3)),
    (one_row, (2, 20, 30), 4, (0, 1)),
    (products, (2, 7, 10), 2, (0, 0)),
    (regrouped_rows, (2, 7, 12), 3, (0, 0)),
]

KINDS = (
    "conv",
    "depthwise",
    "group",
    "activation",
    "scale",
    "add",
    "concat",
    "pool",
    "gate",
    "transpose",
    "transposed",
    "resize",
)


@st.composite
def chains(draw: st.DrawFn) -> tuple[Net, str]:
    """A random network whose operators nearly all work on blocks; channels are mostly no multiple of LANES."""
    channels = st.sampled_from([8, 9, 16, 20, 32])
    net = Net(
        draw(st.integers(1, 2)),
        draw(st.sampled_from([1, 3, 4, 5, 16, 20])),
        *draw(st.tuples(st.integers(5, 9), st.integers(5, 9))),
        seed=draw(st.integers(0, 99)),
    )
    maps = [net.conv("x", draw(channels))]
    for _ in range(draw(st.integers(2, 6))):
        y = draw(st.sampled_from(maps))
        same = [other for other in maps if net.shapes[other] == net.shapes[y]]
        beside = [other for other in maps if net.shapes[other][2:] == net.shapes[y][2:]]
        size = min(net.shapes[y][2:])
        kind = draw(st.sampled_from(KINDS))
        if kind == "conv":
            kernel, dilation = draw(st.sampled_from([(1, 1), (3, 1), (3, 2)]))
            pads = [draw(st.integers(dilation, 2)) if kernel == 3 else 0 for _ in range(4)]
            maps.append(
                net.conv(
                    y,
                    draw(channels),
                    kernel,
                    pads=pads,
                    dilations=[dilation] * 2,
                    strides=[draw(st.integers(1, 2)) for _ in range(2)],
                )
            )
        elif kind == "depthwise":
            maps.append(net.depthwise(y, strides=[draw(st.integers(1, 2))] * 2))
        elif kind == "group" and net.shapes[y][1] % 4 == 0:
            maps.append(net.conv(y, draw(st.sampled_from([8, 20, 32])), draw(st.sampled_from([1, 1, 3])), group=4))
        elif kind == "transposed" and size < 10:
            stride = draw(st.integers(1, 3))
            maps.append(
                up(
                    net,
                    y,
                    draw(channels),
                    draw(st.integers(1, 5)),
                    stride,
                    output_padding=[draw(st.integers(0, stride - 1))] * 2,
                )
            )
        elif kind == "resize" and size < 10:
            maps.append(
                resize(
                    net,
                    y,
                    *draw(st.sampled_from([(2, 2), (1, 3), (3, 1), (1.3, 0.7)])),
                    mode=draw(st.sampled_from(["nearest", "linear"])),
                )
            )
        elif kind == "transpose":
            maps.append(net.op("Transpose", y, perm=[0, 1, 3, 2]))
        elif kind == "activation":
            maps.append(net.op(draw(st.sampled_from(["Relu", "Sigmoid", "Tanh", "HardSwish", "Abs", "Erf"])), y))
        elif kind == "scale":
            other = net.random(net.shapes[y][1], 1, 1) if draw(st.booleans()) else net.constant(np.float32(0.7))
            maps.append(net.op(draw(st.sampled_from(["Mul", "Add", "Sub"])), y, other))
        elif kind == "add":
            maps.append(net.op(draw(st.sampled_from(["Add", "Mul", "Sub"])), y, draw(st.sampled_from(same))))
        elif kind == "concat":
            maps.append(net.op("Concat", y, draw(st.sampled_from(beside)), axis=1))
        elif kind == "gate":
            pooled = net.op("GlobalAveragePool", y)
            maps.append(net.op("Mul", net.op("Sigmoid", net.conv(pooled, net.shapes[y][1], 1)), y))
        elif kind == "pool" and size >= 3:
            maps.append(
                net.op(
                    draw(st.sampled_from(["MaxPool", "AveragePool"])),
                    y,
                    kernel_shape=[3, 3],
                    pads=[1] * 4,
                    strides=[draw(st.integers(1, 2))] * 2,
                )
            )
    return net, maps[-1]
