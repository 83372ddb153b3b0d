"""Operator specs with shapes like those of real models, drawn at random.

TenSet (Zheng et al., NeurIPS 2021, Datasets and Benchmarks) takes tasks from 120 networks; Lorien (Yu et al., SoCC
2021) mutates the shapes of a model's tasks. Here each family has shapes of well-known networks, whose extents are
mutated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.errors import InvalidInput
from tunesmith.names import FLOAT32
from tunesmith.operators import NARROW_KINDS, OperatorSpec, parse_operator

LEAST_SECONDS, MOST_SECONDS = 20e-6, 50e-3
"""How long one run of a program may take."""
FAST = (100e9, 20e9)
"""FLOP/s and bytes/s of good programs on two cores: with these a workload takes ``LEAST_SECONDS`` at least."""
SLOW = (10e9, 2e9)
"""The same of ordinary programs: with these it takes ``MOST_SECONDS`` at most."""
MAX_BYTES = 256 << 20
"""Most bytes that all tensors have together."""
TRIES = 200
"""Draws in a row without a new spec after which a family counts as used up."""

BATCHES = ((1, 0.6), (2, 0.1), (4, 0.15), (8, 0.15))
KERNELS = ((1, 0.45), (3, 0.45), (5, 0.06), (7, 0.04))
DEPTHWISE_KERNELS = ((3, 0.6), (5, 0.3), (7, 0.1))
STRIDES = ((1, 0.75), (2, 0.25))
MUTATED = 0.8
"""Part of the extents that are mutated."""
SPREAD = 2.0
"""A mutated extent is at most so many times as large as the network's, and no smaller than its inverse."""
ALIGNED = ((16, 0.4), (8, 0.3), (4, 0.15), (1, 0.15))
"""Most networks have extents that registers divide; some have odd ones."""
NARROW_ALIGNED = 16
"""In a narrow precision every extent of a product is a multiple of this, else it is computed in float32."""

CONV_LAYERS = (
    # channels in, channels out, extent of the map
    (3, 64, 224),
    (64, 64, 56),
    (64, 128, 56),
    (128, 128, 28),
    (256, 256, 14),
    (512, 512, 7),  # ResNet-18, ResNet-50, VGG-16
    (64, 256, 56),
    (256, 128, 28),
    (512, 256, 14),
    (1024, 512, 7),
    (16, 64, 55),
    (48, 192, 27),
    (24, 144, 56),
    (96, 24, 28),
    (160, 960, 7),
    (32, 64, 112),  # SqueezeNet, MobileNet-V2, YOLO
    (256, 512, 20),
    (128, 64, 40),
)
DEPTHWISE_LAYERS = ((32, 112), (96, 112), (144, 56), (192, 28), (384, 14), (576, 14), (960, 7), (672, 14), (240, 28))
"""Channels and extent of the map: MobileNet-V1, V2 and V3, EfficientNet."""
PRODUCTS = (
    # rows, columns, reduction
    (128, 768, 768),
    (128, 3072, 768),
    (128, 768, 3072),
    (128, 512, 128),
    (197, 2304, 768),
    (64, 1024, 1024),
    (16, 4096, 1024),
    (1, 1000, 2048),
    (1, 4096, 4096),
    (49, 1536, 384),
    (256, 256, 64),
    (512, 512, 512),
)
"""BERT, ViT, Swin, GPT-2, classifiers, and small squares."""
ATTENTIONS = (
    (12, 128, 128, 64),
    (12, 128, 64, 128),
    (8, 64, 64, 64),
    (16, 256, 256, 64),
    (3, 49, 49, 32),
    (12, 1, 256, 64),
)
"""Heads, rows, columns and reduction of the products in attention."""
ROWS = ((1536, 128), (768, 512), (128, 768), (197, 768), (256, 1024), (3136, 96), (64, 4096), (32, 1000))
"""Rows and columns of what is normalised: attention scores, features of transformers, classes."""


@dataclass
class Draw:
    """Random extents; ``step`` divides those that :meth:`extent` gives, if it is more than 1."""

    rng: np.random.Generator
    step: int = 1

    def of(self, odds: Sequence[tuple[int, float]]) -> int:
        """One of some numbers with their odds."""
        return int(self.rng.choice([number for number, _ in odds], p=[chance for _, chance in odds]))

    def layer(self, layers: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """The shape of a network's layer."""
        return layers[int(self.rng.integers(len(layers)))]

    def extent(self, usual: int) -> int:
        """An extent like a network's: mostly another one, up to ``SPREAD`` times as large or as small."""
        if usual > 1 and self.rng.random() < MUTATED:
            scaled = usual * SPREAD ** self.rng.uniform(-1.0, 1.0)
            step = self.of(ALIGNED)
            usual = max(1, round(scaled / step) * step) if scaled >= step else round(scaled)
        return usual if self.step == 1 else max(1, round(usual / self.step)) * self.step

    def side(self, usual: int) -> int:
        """The extent of a map, which need not be divisible by anything."""
        return max(1, round(usual * SPREAD ** self.rng.uniform(-1.0, 1.0))) if self.rng.random() < MUTATED else usual


def _conv2d(draw: Draw) -> str:
    channels, outputs, side = draw.layer(CONV_LAYERS)
    kernel, stride, batch = draw.of(KERNELS), draw.of(STRIDES), draw.of(BATCHES)
    inputs, outputs, side = draw.extent(channels), draw.extent(outputs), draw.side(side)
    padding = kernel // 2 if side < kernel or draw.rng.random() < 0.9 else 0
    shape = f"{batch}x{inputs}x{side}x{side},{outputs}x{inputs}x{kernel}x{kernel}"
    return f"conv2d:{shape},s{stride},p{padding}"


def _depthwise(draw: Draw) -> str:
    channels, side = draw.layer(DEPTHWISE_LAYERS)
    kernel, side = draw.of(DEPTHWISE_KERNELS), draw.side(side)
    shape = f"{draw.of(BATCHES)}x{draw.extent(channels)}x{side}x{side}"
    return f"depthwise:{shape},k{kernel},s{draw.of(STRIDES)},p{kernel // 2}"


def _product(kind: str) -> Callable[[Draw], str]:
    def drawn(draw: Draw) -> str:
        rows, columns, reduction = draw.layer(PRODUCTS)
        return f"{kind}:{draw.of(BATCHES) * draw.extent(rows)}x{draw.extent(columns)}x{draw.extent(reduction)}"

    return drawn


def _bmm(draw: Draw) -> str:
    heads, *product = draw.layer(ATTENTIONS)
    return f"bmm:{draw.of(BATCHES) * draw.extent(heads)}x" + "x".join(str(draw.extent(each)) for each in product)


def _rows(kind: str) -> Callable[[Draw], str]:
    def drawn(draw: Draw) -> str:
        rows, columns = draw.layer(ROWS)
        return f"{kind}:{draw.of(BATCHES) * draw.extent(rows)}x{draw.extent(columns)}"

    return drawn


FAMILIES: Mapping[str, Callable[[Draw], str]] = {
    "conv2d": _conv2d,
    "depthwise": _depthwise,
    "gemm": _product("gemm"),
    "dense": _product("dense"),
    "bmm": _bmm,
    "softmax": _rows("softmax"),
    "layernorm": _rows("layernorm"),
}
"""What draws a spec of each kind, without its type."""


def draw_operators(families: Sequence[str], count: int, seed: int, precision: str = FLOAT32) -> list[OperatorSpec]:
    """``count`` different operators, family after family in turn; in a narrow precision of those that have it.

    The same arguments give the same ones, and a larger ``count`` only adds to them. A family that is used up drops out.

    Raises:
        InvalidInput: for a family that there is not, or where no family is left to draw from.
    """
    kinds = [kind for kind in _checked(families) if precision == FLOAT32 or kind in NARROW_KINDS]
    step = 1 if precision == FLOAT32 else NARROW_ALIGNED
    names = list(FAMILIES)
    draws = {kind: Draw(np.random.default_rng([seed, names.index(kind)]), step) for kind in kinds}
    found: dict[str, OperatorSpec] = {}
    while draws and len(found) < count:
        for kind in list(draws):
            spec = _new(kind, draws[kind], precision, found)
            if spec is None:
                del draws[kind]
            elif len(found) < count:
                found[spec.canonical] = spec
    if len(found) < count:
        raise InvalidInput(
            f"--count {count}: the families {', '.join(families)} have only {len(found)} shapes in {precision} to "
            "draw; ask for fewer, or add families",
            field="count",
            value=count,
        )
    return list(found.values())


def _checked(families: Sequence[str]) -> list[str]:
    unknown = [name for name in families if name not in FAMILIES]
    if unknown or not families:
        name = unknown[0] if unknown else ""
        raise InvalidInput(
            f"--families: there is no family {name!r}; there are {', '.join(FAMILIES)}", field="families", value=name
        )
    return list(dict.fromkeys(families))


def _new(kind: str, draw: Draw, precision: str, known: Mapping[str, OperatorSpec]) -> OperatorSpec | None:
    """A spec within the bounds that is not known; None where none is found."""
    for _ in range(TRIES):
        spec = parse_operator(f"{FAMILIES[kind](draw)}:{precision}")
        if spec.canonical not in known and within_bounds(spec):
            return spec
    return None


def within_bounds(spec: OperatorSpec) -> bool:
    """True where one run is expected to take between ``LEAST_SECONDS`` and ``MOST_SECONDS``."""
    work, size = operations(spec), tensor_bytes(spec)
    quick, slow = (max(work / flops, size / bandwidth) for flops, bandwidth in (FAST, SLOW))
    return size <= MAX_BYTES and quick >= LEAST_SECONDS and slow <= MOST_SECONDS


def operations(spec: OperatorSpec) -> float:
    """FLOPs of one run, about: two for each multiply-add, some for each element of what is normalised."""
    if spec.kind in ("softmax", "layernorm"):
        return 8.0 * math.prod(spec.dims)
    if spec.kind in ("conv2d", "depthwise"):
        terms = math.prod(spec.kernel) * (spec.dims[1] if spec.kind == "conv2d" else 1)
        return 2.0 * math.prod(spec.output.shape) * terms
    return 2.0 * math.prod(spec.dims)


def tensor_bytes(spec: OperatorSpec) -> int:
    """Bytes of all tensors of a spec."""
    tensors = (*spec.inputs, spec.output)
    return sum(np.dtype(tensor.dtype).itemsize * math.prod(tensor.shape) for tensor in tensors)
