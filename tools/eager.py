"""``tunesmith.tune`` against PyTorch in eager mode: ``python -m tools.eager [--time SECONDS] [NAME ...]``.

Three networks with random weights, a module of TVM and three functions (a product, one that goes on with it, a norm)
are tuned one after another on one embedded stack. Then calls of the tuned model and of PyTorch take turns in this
process, a second each, and the medians are compared. The exit status is 1 if outputs differ, if a model is not faster
than PyTorch, or if it took longer than 90 s; the last lines say which.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import tunesmith
from tunesmith.client import EmbeddedStack

SECONDS, PASSES, PASS_SECONDS = 60.0, 5, 1.0
LONGEST = 90.0
"""Seconds that a user waits for a model at most, from the call of ``tunesmith.tune`` to a function."""
TOLERANCE = 1e-3
"""Largest difference of outputs, as a part of the largest output."""
NORM_EPSILON = 1e-6


class Residual(nn.Module):
    """Two convolutions and a way around them (He et al., "Deep residual learning", 2016)."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.Conv2d(out, out, 3, 1, 1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(out), nn.BatchNorm2d(out)])
        self.way = nn.Identity() if stride == 1 else nn.Conv2d(channels, out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Maps in, maps out."""
        made = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(made)) + self.way(x))


def residual_network() -> nn.Module:
    """A network of the size of a ResNet-18 (11 million parameters)."""
    widths = (64, 64, 128, 256, 512)
    stages = [
        part
        for before, width in itertools.pairwise(widths)
        for part in (Residual(before, width, 1 if before == width else 2), Residual(width, width, 1))
    ]
    stem = (nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Transformer(nn.Module):
    """A vision transformer of the size of DeiT-tiny (5 million parameters)."""

    def __init__(self, width: int = 192, depth: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, width, 16, 16), nn.Parameter(torch.randn(1, 196, width) / 50)
        shape: dict[str, Any] = {"activation": "gelu", "batch_first": True, "norm_first": True}
        layers = [nn.TransformerEncoderLayer(width, heads, 4 * width, **shape) for _ in range(depth)]
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Images in, scores out."""
        made = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            made = layer(made)
        scores: Tensor = self.head(made.mean(1))
        return scores


def perceptron() -> nn.Module:
    """Four layers of 1024."""
    layers = [part for _ in range(4) for part in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(1024, 1000))


@dataclass(frozen=True)
class Case:
    """What is tuned, with which inputs, and what PyTorch does instead; ``model`` is made from ``eager`` and inputs."""

    eager: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    model: Callable[[Any, tuple[Tensor, ...]], Any] = lambda eager, inputs: eager


def as_module(net: Any, inputs: tuple[Tensor, ...]) -> Any:
    """The network as TVM's own importer has it."""
    from tvm.relax.frontend.torch import from_exported_program

    return from_exported_program(torch.export.export(net, inputs), unwrap_unit_return_tuple=True)


def as_function(_: Any, inputs: tuple[Tensor, ...]) -> Any:
    """A product as a PrimFunc."""
    from tvm import te

    operands, product = _product(inputs)
    return te.create_prim_func([*operands, product])


def as_fused_function(_: Any, inputs: tuple[Tensor, ...]) -> Any:
    """A product, a bias and GELU as one PrimFunc."""
    from tvm import te, tirx

    operands, product = _product(inputs[:2])
    bias = te.placeholder(product.shape[1:], name="bias")
    whole = te.compute(product.shape, lambda i, j: product[i, j] + bias[j], name="biased")

    def gelu(i: Any, j: Any) -> Any:
        return whole[i, j] * 0.5 * (1.0 + tirx.erf(whole[i, j] * math.sqrt(0.5)))

    return te.create_prim_func([*operands, bias, te.compute(product.shape, gelu, name="gelu")])


def as_norm_function(_: Any, inputs: tuple[Tensor, ...]) -> Any:
    """A root mean square norm (Zhang and Sennrich, 2019) as a PrimFunc."""
    from tvm import te, tirx

    rows, width = inputs[0].shape
    x, scale = te.placeholder((rows, width), name="x"), te.placeholder((width,), name="scale")
    at = te.reduce_axis((0, width), name="at")
    squares = te.compute((rows,), lambda i: te.sum(x[i, at] * x[i, at], axis=at), name="squares")
    of_row = te.compute((rows,), lambda i: tirx.rsqrt(squares[i] / float(width) + NORM_EPSILON), name="of_row")
    return te.create_prim_func([x, scale, te.compute(x.shape, lambda i, j: x[i, j] * of_row[i] * scale[j], name="y")])


def _product(inputs: tuple[Tensor, ...]) -> tuple[list[Any], Any]:
    """Operands of a product, and the product, as tensors of TVM."""
    from tvm import te

    (m, k), n = inputs[0].shape, inputs[1].shape[1]
    a, b, at = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b"), te.reduce_axis((0, k), name="k")
    return [a, b], te.compute((m, n), lambda i, j: te.sum(a[i, at] * b[at, j], axis=at), name="c")


def biased_gelu(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    """What ``as_fused_function`` computes."""
    return torch.nn.functional.gelu(torch.addmm(bias, a, b))


def norm(x: Tensor, scale: Tensor) -> Tensor:
    """What ``as_norm_function`` computes."""
    return torch.nn.functional.rms_norm(x, x.shape[1:], scale, NORM_EPSILON)


def cases() -> dict[str, Case]:
    """By name."""
    torch.manual_seed(0)
    image, rows = torch.randn(1, 3, 224, 224), torch.randn(128, 1024)
    square, other = torch.randn(512, 512), torch.randn(512, 512)
    return {
        "residual": Case(residual_network().eval(), (image,)),
        "transformer": Case(Transformer().eval(), (image,)),
        "perceptron": Case(perceptron().eval(), (rows,)),
        "irmodule": Case(Residual(64, 64, 1).eval(), (torch.randn(1, 64, 56, 56),), as_module),
        "primfunc": Case(torch.mm, (square, other), as_function),
        "fused": Case(biased_gelu, (square, other, torch.randn(512)), as_fused_function),
        "norm": Case(norm, (rows, torch.randn(1024)), as_norm_function),
    }


def samples(call: Callable[[], Any], seconds: float) -> list[float]:
    """Seconds of calls, for some seconds."""
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or not found:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return found


def compared(case: Case, tuned: Any) -> tuple[float, float, float]:
    """Medians of the tuned model and of PyTorch in seconds, and the difference of their outputs."""
    with torch.no_grad():
        ours, theirs = tuned(*case.inputs), case.eager(*case.inputs)
        error = float((ours - theirs).abs().max() / theirs.abs().max())
        turns: tuple[list[float], list[float]] = ([], [])
        for _ in range(PASSES):
            for found, call in zip(turns, (tuned, case.eager), strict=True):
                found += samples(lambda call=call: call(*case.inputs), PASS_SECONDS)  # type: ignore[misc]
    return statistics.median(turns[0]), statistics.median(turns[1]), error


def problems(ours: float, theirs: float, error: float, took: float) -> list[str]:
    """What is wrong with a tuned model, from its latency and that of PyTorch, its error, and the time that it took."""
    found = [f"is {ours / theirs:.2f} times as slow as PyTorch"] if not ours < theirs else []
    found += (
        [f"differs by {error:.1e} of the largest output, and {TOLERANCE:g} is allowed"]
        if not error <= TOLERANCE
        else []
    )
    return found + ([f"took {took:.0f} s, and {LONGEST:g} are allowed"] if took > LONGEST else [])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which cases (default: all)")
    parser.add_argument("--time", type=float, default=SECONDS, help="seconds for each (default: %(default)g)")
    options = parser.parse_args()
    known = cases()
    wrong = [name for name in options.names if name not in known]
    if wrong:
        parser.error(f"there is no case {wrong[0]!r}; there are {', '.join(known)}")
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(prefix="tunesmith-eager-") as folder, EmbeddedStack(folder) as stack:
        tuned = {}
        for name in options.names or known:
            case, start = known[name], time.monotonic()
            model = case.model(case.eager, case.inputs)
            example = case.inputs if isinstance(model, nn.Module) else None
            made = tunesmith.tune(model, example, time=options.time, server=stack.url, name=name)
            tuned[name] = made, time.monotonic() - start
    found: list[str] = []
    print(f"{'model':12} {'eager':>10} {'tuned':>10} {'faster':>7} {'error':>8} {'took':>6}")
    for name, (made, took) in tuned.items():
        ours, theirs, error = compared(known[name], made)
        print(f"{name:12} {theirs * 1e3:7.3f} ms {ours * 1e3:7.3f} ms {theirs / ours:6.2f}x {error:8.1e} {took:4.0f} s")
        found += [f"{name} {problem}" for problem in problems(ours, theirs, error, took)]
    for problem in found:
        print(problem, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
