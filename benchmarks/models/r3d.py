"""R3D-18 (Tran et al., "A closer look at spatiotemporal convolutions for action recognition", CVPR 2018).

A residual network of videos, its normalisations folded away. The first kernel covers seven frames instead of three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.models.graph import Graph

if TYPE_CHECKING:
    import onnx

INPUT, CLASSES = "video", 400
WIDTHS = (64, 128, 256, 512)


def build(seed: int, frames: int = 8, size: int = 112, widths: Sequence[int] = WIDTHS) -> onnx.ModelProto:
    """The model with random weights; takes ``video`` [1, 3, frames, size, size], gives 400 logits."""
    graph = Graph("r3d18", seed)
    value = graph.node("Relu", graph.convolution(INPUT, 3, widths[0], 7, 2, axes=3))
    channels = widths[0]
    for width in widths:
        value = _block(graph, value, channels, width, 1 if width == channels else 2)
        value, channels = _block(graph, value, width, width, 1), width
    return graph.model((INPUT, (1, 3, frames, size, size)), (graph.classified(value, channels, CLASSES), (1, CLASSES)))


def _block(graph: Graph, value: str, channels: int, outputs: int, stride: int) -> str:
    """Two convolutions, and what they are added to."""
    inner = graph.node("Relu", graph.convolution(value, channels, outputs, 3, stride, axes=3))
    inner = graph.convolution(inner, outputs, outputs, 3, gain=0.5, axes=3)
    same = stride == 1 and channels == outputs
    short = value if same else graph.convolution(value, channels, outputs, 1, stride, gain=1.0, axes=3)
    return graph.node("Relu", graph.node("Add", inner, short))
