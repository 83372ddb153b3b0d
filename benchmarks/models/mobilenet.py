"""MobileNetV2 (Sandler et al., "Inverted residuals and linear bottlenecks", CVPR 2018), normalisations folded away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.models.graph import Graph

if TYPE_CHECKING:
    import onnx

INPUT, CLASSES = "image", 1000


@dataclass(frozen=True)
class Stage:
    """Blocks one after another: the widening inside, output channels, how many, the first one's stride, the kernel."""

    widening: int
    channels: int
    blocks: int
    stride: int
    kernel: int = 3


STAGES = (
    Stage(1, 16, 1, 1),
    Stage(6, 24, 2, 2),
    Stage(6, 32, 3, 2),
    Stage(6, 64, 4, 2),
    Stage(6, 96, 3, 1),
    Stage(6, 160, 3, 2),
    Stage(6, 320, 1, 1),
)
FIRST_CHANNELS, LAST_CHANNELS = 32, 1280
"""Channels before the stages and after them."""


def build(seed: int, size: int = 224, stages: Sequence[Stage] = STAGES, last: int = LAST_CHANNELS) -> onnx.ModelProto:
    """The model with random weights; takes ``image`` [1, 3, size, size], gives 1000 numbers."""
    graph = Graph("mobilenet", seed)
    value, channels = _convolution(graph, INPUT, 3, FIRST_CHANNELS, 3, 2), FIRST_CHANNELS
    for stage in stages:
        for block in range(stage.blocks):
            value = _block(graph, value, channels, stage, stage.stride if block == 0 else 1)
            channels = stage.channels
    value = _convolution(graph, value, channels, last, 1, 1)
    value = graph.classified(value, last, CLASSES)
    return graph.model((INPUT, (1, 3, size, size)), (value, (1, CLASSES)))


def _block(graph: Graph, value: str, channels: int, stage: Stage, stride: int) -> str:
    """An inverted residual: widen, convolve each channel by itself, narrow without an activation."""
    wide, inside = channels * stage.widening, value
    if stage.widening > 1:
        inside = _convolution(graph, inside, channels, wide, 1, 1)
    inside = _convolution(graph, inside, wide, wide, stage.kernel, stride, groups=wide)
    inside = _convolution(graph, inside, wide, stage.channels, 1, 1, active=False)
    return graph.node("Add", value, inside) if stride == 1 and channels == stage.channels else inside


def _convolution(
    graph: Graph,
    value: str,
    channels: int,
    outputs: int,
    kernel: int,
    stride: int,
    groups: int = 1,
    active: bool = True,
) -> str:
    """A convolution and, when ``active``, a rectifier that ends at 6."""
    value = graph.convolution(value, channels, outputs, kernel, stride, groups, 2**0.5 if active else 1.0)
    return graph.node("Clip", value, graph.constant(0.0), graph.constant(6.0)) if active else value
