"""Which products are put in a row, and how they become a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.models.graph import Graph
from tunesmith.errors import InvalidInput
from tunesmith.names import FLOAT32
from tunesmith.operators import OperatorSpec, parse_operator

if TYPE_CHECKING:
    import onnx

LENGTH = 6
"""Products of a chain."""
KINDS = ("gemm", "conv2d")


@dataclass(frozen=True)
class Chain:
    """Products that take turns; each takes what the one before makes, the first also what the last makes.

    Attributes:
        steps: operator specs in float32.
    """

    steps: tuple[str, ...]

    @property
    def name(self) -> str:
        """The specs without their type."""
        return " and ".join(self.short)

    @property
    def short(self) -> tuple[str, ...]:
        """Each spec without its type."""
        return tuple(step.removesuffix(f":{FLOAT32}") for step in self.steps)

    @property
    def flops(self) -> tuple[float, ...]:
        """Operations of each step, a multiply-add counted as two."""
        return tuple(flops_of(parse_operator(step)) for step in self.steps)


CHAINS = (
    Chain(("gemm:1024x1024x1024",)),
    Chain(("gemm:128x768x3072", "gemm:128x3072x768")),
    Chain(("conv2d:1x64x56x56,64x64x3x3,s1,p1",)),
    Chain(("conv2d:1x128x28x28,128x128x3x3,s1,p1",)),
    Chain(("conv2d:1x256x14x14,256x256x3x3,s1,p1",)),
    Chain(("conv2d:1x64x56x56,256x64x1x1,s1,p0", "conv2d:1x256x56x56,64x256x1x1,s1,p0")),
)
"""Large and flat products, the 3×3 convolutions of ResNet, and two of 1×1, one of which sums 64 channels."""


def flops_of(spec: OperatorSpec) -> float:
    """Operations of a product, a multiply-add counted as two."""
    weight = next(tensor for tensor in spec.inputs if tensor.name in ("b", "weight"))
    steps = weight.shape[0] if spec.kind == "gemm" else math.prod(weight.shape[1:])
    return 2.0 * math.prod(spec.output.shape) * steps


def chosen(texts: Sequence[str] | None) -> tuple[Chain, ...]:
    """The chains of specs such as ``gemm:8x64x32+gemm:8x32x64``; all that are known without one.

    Raises:
        InvalidInput: a step is no product in float32, or does not take what the one before makes.
        InvalidOperator: a spec does not parse.
    """
    return tuple(checked(Chain(tuple(text.split("+")))) for text in texts) if texts else CHAINS


def checked(chain: Chain) -> Chain:
    """The chain itself.

    Raises:
        InvalidInput: as above.
        InvalidOperator: as above.
    """
    specs = [parse_operator(step) for step in chain.steps]
    for spec in specs:
        if spec.kind not in KINDS or spec.precision != FLOAT32 or spec.dtype != FLOAT32:
            raise InvalidInput(f"a chain has {' and '.join(KINDS)} in float32", field="operator", value=spec.canonical)
    for one, next_ in pairwise([*specs, specs[0]]):
        if one.output.shape != next_.inputs[0].shape:
            raise InvalidInput(
                f"{next_.canonical} takes {list(next_.inputs[0].shape)}, but the step before makes "
                f"{list(one.output.shape)}",
                field="operator",
                value="+".join(chain.steps),
            )
    return chain


def model(chain: Chain, seed: int = 0, length: int = LENGTH) -> onnx.ModelProto:
    """The chain with random weights: each product has a bias and a rectifier behind it.

    Args:
        chain: the products.
        seed: of the weights.
        length: products, in turn those of the chain.
    """
    graph = Graph("chain", seed)
    specs = [parse_operator(step) for step in chain.steps]
    value = "x"
    for at in range(length):
        value = graph.node("Relu", _product(graph, value, specs[at % len(specs)]))
    last = specs[(length - 1) % len(specs)]
    return graph.model(("x", specs[0].inputs[0].shape), (value, last.output.shape))


def _product(graph: Graph, value: str, spec: OperatorSpec) -> str:
    if spec.kind == "gemm":
        _, columns, inner = spec.dims
        weight = graph.weight(inner, columns, fan_in=inner, gain=2**0.5)
        return graph.node("Add", graph.node("MatMul", value, weight), graph.around(0.0, columns))
    inside = spec.dims[1]
    weight = graph.weight(spec.channels, inside, *spec.kernel, fan_in=inside * math.prod(spec.kernel), gain=2**0.5)
    return graph.node(
        "Conv",
        value,
        weight,
        graph.around(0.0, spec.channels),
        strides=[spec.stride] * 2,
        pads=[spec.padding] * 4,
        kernel_shape=list(spec.kernel),
    )
