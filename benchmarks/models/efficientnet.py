"""EfficientNet-B0 (Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", ICML 2019),
normalisations folded away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.models.graph import Graph
from benchmarks.models.mobilenet import Stage

if TYPE_CHECKING:
    import onnx

INPUT, CLASSES = "image", 1000
STAGES = (
    Stage(1, 16, 1, 1),
    Stage(6, 24, 2, 2),
    Stage(6, 40, 2, 2, 5),
    Stage(6, 80, 3, 2),
    Stage(6, 112, 3, 1, 5),
    Stage(6, 192, 4, 2, 5),
    Stage(6, 320, 1, 1),
)
FIRST_CHANNELS, LAST_CHANNELS = 32, 1280
"""Channels before the stages and after them."""
SQUEEZED = 4
"""How many channels of a block's input share one number of its gate."""


def build(seed: int, size: int = 224, stages: Sequence[Stage] = STAGES, last: int = LAST_CHANNELS) -> onnx.ModelProto:
    """The model with random weights; takes ``image`` [1, 3, size, size], gives 1000 numbers."""
    graph = Graph("efficientnet", seed)
    value, channels = _swish(graph, graph.convolution(INPUT, 3, FIRST_CHANNELS, 3, 2)), FIRST_CHANNELS
    for stage in stages:
        for block in range(stage.blocks):
            value = _block(graph, value, channels, stage, stage.stride if block == 0 else 1)
            channels = stage.channels
    value = graph.classified(_swish(graph, graph.convolution(value, channels, last, 1)), last, CLASSES)
    return graph.model((INPUT, (1, 3, size, size)), (value, (1, CLASSES)))


def _block(graph: Graph, value: str, channels: int, stage: Stage, stride: int) -> str:
    """An inverted residual with a gate: widen, convolve each channel by itself, weigh the channels, narrow."""
    wide, inside = channels * stage.widening, value
    if stage.widening > 1:
        inside = _swish(graph, graph.convolution(inside, channels, wide, 1))
    inside = _swish(graph, graph.convolution(inside, wide, wide, stage.kernel, stride, groups=wide))
    inside = graph.node("Mul", inside, _gate(graph, inside, wide, max(1, channels // SQUEEZED)))
    inside = graph.convolution(inside, wide, stage.channels, 1, gain=2.0)
    return graph.node("Add", value, inside) if stride == 1 and channels == stage.channels else inside


def _gate(graph: Graph, value: str, channels: int, squeezed: int) -> str:
    """A number for each channel from the means of all (Hu et al., "Squeeze-and-excitation networks", CVPR 2018)."""
    means = graph.node("GlobalAveragePool", value)
    inside = _swish(graph, graph.convolution(means, channels, squeezed, 1))
    return graph.node("Sigmoid", graph.convolution(inside, squeezed, channels, 1, gain=1.0))


def _swish(graph: Graph, value: str) -> str:
    """x sigmoid(x) (Ramachandran et al., "Searching for activation functions", 2017)."""
    return graph.node("Mul", value, graph.node("Sigmoid", value))
