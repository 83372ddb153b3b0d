"""U-Net (Ronneberger et al., "U-Net: convolutional networks for biomedical image segmentation", MICCAI 2015).

Also of volumes (Çiçek et al., "3D U-Net: learning dense volumetric segmentation from sparse annotation", MICCAI 2016).
Its convolutions are padded, its normalisations folded away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.models.graph import Graph

if TYPE_CHECKING:
    import onnx

INPUT, CLASSES = "image", 4


def build(seed: int, size: int = 128, width: int = 16, levels: int = 3, axes: int = 2) -> onnx.ModelProto:
    """The model with random weights; takes ``image`` [1, 3, size, size], gives 4 maps of that size.

    Args:
        width: channels of the outermost level, each further one has twice as many.
        levels: how often the size is halved.
        axes: 3 for volumes [1, 3, size, size, size].
    """
    graph = Graph("unet", seed)
    value, channels, skipped, twice = INPUT, 3, [], [2] * axes
    for level in range(levels):
        value, channels = _block(graph, value, channels, width << level, axes), width << level
        skipped.append(value)
        value = graph.node("MaxPool", value, kernel_shape=twice, strides=twice)
    value, channels = _block(graph, value, channels, width << levels, axes), width << levels
    for level in reversed(range(levels)):
        half = channels // 2
        weight = graph.weight(channels, half, *twice, fan_in=channels)
        value = graph.node("ConvTranspose", value, weight, graph.around(0.0, half), kernel_shape=twice, strides=twice)
        value = _block(graph, graph.node("Concat", value, skipped[level], axis=1), channels, half, axes)
        channels = half
    value = graph.convolution(value, channels, CLASSES, 1, gain=1.0, axes=axes)
    return graph.model((INPUT, (1, 3, *[size] * axes)), (value, (1, CLASSES, *[size] * axes)))


def _block(graph: Graph, value: str, channels: int, outputs: int, axes: int) -> str:
    """Two convolutions, of three along each axis, each with a rectifier."""
    for inside in (channels, outputs):
        value = graph.node("Relu", graph.convolution(value, inside, outputs, 3, axes=axes))
    return value
