"""A Vision Transformer (Dosovitskiy et al., 2021) of the size DeiT-Ti (Touvron et al., 2021): patches are tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.models.encoder import Sizes, attention, feed_forward, linear, normalised
from benchmarks.models.graph import Graph

if TYPE_CHECKING:
    import onnx

INPUT = "image"
PATCH = 16
CLASSES = 1000


def build(seed: int, size: int = 224, layers: int = 12, features: int = 192, heads: int = 3) -> onnx.ModelProto:
    """The model with random weights; takes ``image`` [1, 3, size, size] and gives 1000 scores."""
    graph, patches = Graph("vit", seed), (size // PATCH) ** 2
    sizes = Sizes(layers, patches + 1, features, heads, 4 * features)
    value = _tokens(graph, patches, features)
    for _ in range(layers):
        value = graph.node("Add", value, attention(graph, normalised(graph, value, sizes), sizes))
        value = graph.node("Add", value, feed_forward(graph, normalised(graph, value, sizes), sizes))
    first = graph.node("Gather", normalised(graph, value, sizes), graph.constant(0, "int64"), axis=1)
    scores = linear(graph, first, features, CLASSES)
    return graph.model((INPUT, (1, 3, size, size)), (scores, (1, CLASSES)))


def _tokens(graph: Graph, patches: int, features: int) -> str:
    """A product for each patch, a token for the class before them, and what tells the places apart."""
    weight = graph.weight(features, 3, PATCH, PATCH, fan_in=3 * PATCH**2)
    maps = graph.node("Conv", INPUT, weight, graph.around(0.0, features), strides=[PATCH] * 2)
    rows = graph.node("Reshape", maps, graph.constant([1, features, patches], "int64"))
    tokens = graph.node("Transpose", rows, perm=[0, 2, 1])
    kind = graph.constant(np.random.default_rng(0).standard_normal((1, 1, features)))
    places = graph.weight(1, patches + 1, features, fan_in=1)
    return graph.node("Add", graph.node("Concat", kind, tokens, axis=1), places)
