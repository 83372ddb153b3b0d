"""ResNeXt-50 (Xie et al., "Aggregated residual transformations for deep neural networks", CVPR 2017), normalisations
folded away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.models.graph import Graph

if TYPE_CHECKING:
    import onnx

INPUT, CLASSES = "image", 1000
BLOCKS = (3, 4, 6, 3)
"""Of each stage: the first has 128 channels inside, each further one twice as many on a map half as large."""
GROUPS, INSIDE, FIRST_CHANNELS = 32, 128, 64


def build(
    seed: int, size: int = 224, blocks: Sequence[int] = BLOCKS, groups: int = GROUPS, inside: int = INSIDE
) -> onnx.ModelProto:
    """The model with random weights; takes ``image`` [1, 3, size, size], gives 1000 numbers."""
    graph = Graph("resnext50", seed)
    value = graph.node("Relu", graph.convolution(INPUT, 3, FIRST_CHANNELS, 7, 2))
    value, channels = graph.node("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), FIRST_CHANNELS
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage and not block else 1
            value = _block(graph, value, channels, inside << stage, stride, groups)
            channels = 2 * inside << stage
    value = graph.classified(value, channels, CLASSES)
    return graph.model((INPUT, (1, 3, size, size)), (value, (1, CLASSES)))


def _block(graph: Graph, value: str, channels: int, inside: int, stride: int, groups: int) -> str:
    """A bottleneck whose 3×3 convolution is one of groups, beside the input or, where that is of another shape, a 1×1
    convolution of it."""
    outputs, short = 2 * inside, value
    if stride > 1 or channels != outputs:
        short = graph.convolution(value, channels, outputs, 1, stride, gain=1.0)
    value = graph.node("Relu", graph.convolution(value, channels, inside, 1))
    value = graph.node("Relu", graph.convolution(value, inside, inside, 3, stride, groups))
    value = graph.convolution(value, inside, outputs, 1, gain=0.5)
    return graph.node("Relu", graph.node("Add", value, short))
