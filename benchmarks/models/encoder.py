"""A transformer encoder (Devlin et al., "BERT", 2019): attention and a feed-forward part, each normalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.models.graph import Graph

if TYPE_CHECKING:
    import onnx

INPUT = "embeddings"


@dataclass(frozen=True)
class Sizes:
    """Layers, tokens, features of a token, attention heads, features inside the feed-forward part."""

    layers: int = 4
    tokens: int = 128
    features: int = 768
    heads: int = 12
    inside: int = 3072


def build(seed: int, sizes: Sizes = Sizes()) -> onnx.ModelProto:
    """The model with random weights; takes ``embeddings`` [1, tokens, features] and gives as many."""
    graph = Graph("encoder", seed)
    value = INPUT
    for _ in range(sizes.layers):
        value = normalised(graph, graph.node("Add", value, attention(graph, value, sizes)), sizes)
        value = normalised(graph, graph.node("Add", value, feed_forward(graph, value, sizes)), sizes)
    shape = (1, sizes.tokens, sizes.features)
    return graph.model((INPUT, shape), (value, shape))


def attention(graph: Graph, value: str, sizes: Sizes) -> str:
    """Scaled dot-product attention of several heads (Vaswani et al., "Attention is all you need", 2017)."""
    width = sizes.features // sizes.heads
    split = graph.constant([1, sizes.tokens, sizes.heads, width], "int64")

    def heads(order: list[int]) -> str:
        whole = linear(graph, value, sizes.features, sizes.features)
        return graph.node("Transpose", graph.node("Reshape", whole, split), perm=order)

    query, key, values = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    scores = graph.node("Mul", graph.node("MatMul", query, key), graph.constant(width**-0.5))
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), values)
    whole = graph.constant([1, sizes.tokens, sizes.features], "int64")
    mixed = graph.node("Reshape", graph.node("Transpose", mixed, perm=[0, 2, 1, 3]), whole)
    return linear(graph, mixed, sizes.features, sizes.features)


def feed_forward(graph: Graph, value: str, sizes: Sizes) -> str:
    """Two products with a GELU between them: x (1 + erf(x / √2)) / 2 (Hendrycks and Gimpel, 2016)."""
    inside = linear(graph, value, sizes.features, sizes.inside)
    error = graph.node("Erf", graph.node("Mul", inside, graph.constant(0.5**0.5)))
    gate = graph.node("Mul", graph.node("Add", error, graph.constant(1.0)), graph.constant(0.5))
    return linear(graph, graph.node("Mul", inside, gate), sizes.inside, sizes.features)


def linear(graph: Graph, value: str, features: int, outputs: int) -> str:
    product = graph.node("MatMul", value, graph.weight(features, outputs, fan_in=features))
    return graph.node("Add", product, graph.around(0.0, outputs))


def normalised(graph: Graph, value: str, sizes: Sizes) -> str:
    scale, shift = graph.around(1.0, sizes.features), graph.around(0.0, sizes.features)
    return graph.node("LayerNormalization", value, scale, shift, axis=-1)
