"""MobileNetV2 and EfficientNet-B0: networks of inverted residuals, normalisations folded away.

Sandler et al., "Inverted residuals and linear bottlenecks", CVPR 2018. Tan and Le, "EfficientNet: rethinking model
scaling for convolutional neural networks", ICML 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.models.graph import Graph

if TYPE_CHECKING:
    import onnx

INPUT, CLASSES = "image", 1000
FIRST_CHANNELS, LAST_CHANNELS = 32, 1280
"""Channels before the stages and after them."""
SQUEEZED = 4
"""How many channels of a block's input share one number of its gate."""


class Stage(NamedTuple):
    """Blocks one after another: the widening inside, output channels, how many, the first one's stride, the kernel."""

    widening: int
    channels: int
    blocks: int
    stride: int
    kernel: int = 3


class Network(NamedTuple):
    """Its stages and activation, whether its blocks have a gate, and the gain of their last convolution."""

    name: str
    stages: Sequence[Stage]
    active: Callable[[Graph, str], str]
    gated: bool
    gain: float


def build(network: Network, seed: int, size: int = 224, last: int = LAST_CHANNELS) -> onnx.ModelProto:
    """The model with random weights; takes ``image`` [1, 3, size, size], gives 1000 numbers."""
    graph, active = Graph(network.name, seed), network.active
    value, channels = active(graph, graph.convolution(INPUT, 3, FIRST_CHANNELS, 3, 2)), FIRST_CHANNELS
    for stage in network.stages:
        for block in range(stage.blocks):
            value = _block(graph, network, value, channels, stage, stage.stride if block == 0 else 1)
            channels = stage.channels
    value = graph.classified(active(graph, graph.convolution(value, channels, last, 1)), last, CLASSES)
    return graph.model((INPUT, (1, 3, size, size)), (value, (1, CLASSES)))


def _block(graph: Graph, network: Network, value: str, channels: int, stage: Stage, stride: int) -> str:
    """An inverted residual: widen, convolve each channel by itself, weigh the channels, narrow without activation."""
    wide, inside = channels * stage.widening, value
    if stage.widening > 1:
        inside = network.active(graph, graph.convolution(inside, channels, wide, 1))
    inside = network.active(graph, graph.convolution(inside, wide, wide, stage.kernel, stride, groups=wide))
    if network.gated:
        inside = graph.node("Mul", inside, _gate(graph, inside, wide, max(1, channels // SQUEEZED)))
    inside = graph.convolution(inside, wide, stage.channels, 1, gain=network.gain)
    return graph.node("Add", value, inside) if stride == 1 and channels == stage.channels else inside


def _gate(graph: Graph, value: str, channels: int, squeezed: int) -> str:
    """A number for each channel from the means of all (Hu et al., "Squeeze-and-excitation networks", CVPR 2018)."""
    means = graph.node("GlobalAveragePool", value)
    inside = _swish(graph, graph.convolution(means, channels, squeezed, 1))
    return graph.node("Sigmoid", graph.convolution(inside, squeezed, channels, 1, gain=1.0))


def _relu6(graph: Graph, value: str) -> str:
    """A rectifier that ends at 6."""
    return graph.node("Clip", value, graph.constant(0.0), graph.constant(6.0))


def _swish(graph: Graph, value: str) -> str:
    """x sigmoid(x) (Ramachandran et al., "Searching for activation functions", 2017)."""
    return graph.node("Mul", value, graph.node("Sigmoid", value))


_FIRST = Stage(1, 16, 1, 1), Stage(6, 24, 2, 2)
_LAST = Stage(6, 320, 1, 1)
MOBILENET = Network(
    "mobilenet",
    (*_FIRST, Stage(6, 32, 3, 2), Stage(6, 64, 4, 2), Stage(6, 96, 3, 1), Stage(6, 160, 3, 2), _LAST),
    _relu6,
    gated=False,
    gain=1.0,
)
EFFICIENTNET = Network(
    "efficientnet",
    (*_FIRST, Stage(6, 40, 2, 2, 5), Stage(6, 80, 3, 2), Stage(6, 112, 3, 1, 5), Stage(6, 192, 4, 2, 5), _LAST),
    _swish,
    gated=True,
    gain=2.0,
)
