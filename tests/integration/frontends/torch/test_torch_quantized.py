"""PyTorch's operators on quantised tensors: what PyTorch computes, but for a step where a rounding falls otherwise."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_nets import Array, run_network
from torch import Tensor

from tunesmith.errors import UnsupportedOperator
from tunesmith.preparation import PLAIN, Preparation
from workers.tvm_backend import tir
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.frontends.torch import quantized
from workers.tvm_backend.passes import pipeline

pytestmark = pytest.mark.parallel
importlib.import_module(quantized.OPERATORS)
OPS: Any = torch.ops.quantized_decomposed
BLOCKED, INT8 = Preparation(blocked=True), Preparation(blocked=True, int8=True)
Function = Callable[[Tensor], Tensor]


def there_and_back(
    x: Tensor, scale: float, zero: int = 0, least: int = -128, most: int = 127, kind: torch.dtype = torch.int8
) -> Tensor:
    q = OPS.quantize_per_tensor(x, scale, zero, least, most, kind)
    return OPS.dequantize_per_tensor(q, scale, zero, least, most, kind)


class Net(torch.nn.Module):
    """What PT2E quantisation makes of two convolutions, a pool and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        rng = torch.Generator().manual_seed(0)

        def whole(*shape: int) -> Tensor:
            return torch.randint(-127, 128, shape, generator=rng, dtype=torch.int8)

        for name, value in {
            "first": whole(16, 4, 3, 3),
            "second": whole(16, 16, 3, 3),
            "last": whole(10, 16),
            "scales": torch.rand(16, generator=rng) * 0.003 + 0.001,
            "zeros": torch.zeros(16, dtype=torch.int64),
            "fine": torch.rand(16, generator=rng, dtype=torch.float64) * 0.003 + 0.001,
        }.items():
            self.register_buffer(name, value)

    def forward(self, x: Tensor) -> Tensor:
        x = there_and_back(x, 0.02, 120, 0, 255, torch.uint8)
        w = OPS.dequantize_per_channel(self.first, self.scales, self.zeros, 0, -127, 127, torch.int8)
        x = there_and_back(F.relu(F.conv2d(x, w, padding=1)), 0.01, 0, 0, 127, torch.uint8)
        x = there_and_back(F.max_pool2d(x, 2), 0.01, 0, 0, 127, torch.uint8)
        w = OPS.dequantize_per_channel(self.second, self.fine, None, 0, -127, 127, torch.int8)
        x = there_and_back(F.conv2d(x, w).mean((2, 3)), 0.02, 3)
        w = OPS.dequantize_per_tensor(self.last, 0.01, 0, -127, 127, torch.int8)
        return there_and_back(F.linear(x, w), 0.02, -5)


class Of(torch.nn.Module):
    """What each function makes of the input: PyTorch takes a second for a program, however little there is in it."""

    def __init__(self, functions: Iterable[Function]) -> None:
        super().__init__()
        self.functions = tuple(functions)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(x) for function in self.functions)


def both(
    folder: Path, model: torch.nn.Module, x: Tensor, preparation: Preparation
) -> tuple[str, list[Array], list[Array]]:
    """The prepared program, its outputs and PyTorch's."""
    torch.export.save(torch.export.export(model, (x,)), folder / "m.pt2")
    made = pipeline.prepare(import_model.import_model(folder / "m.pt2", "pt2"), preparation)
    theirs = model(x)
    return (
        tir.load_module(made.module).script(),
        run_network(made, x.numpy()),
        [each.numpy() for each in ([theirs] if isinstance(theirs, Tensor) else theirs)],
    )


@pytest.mark.parametrize("preparation", [BLOCKED, INT8], ids=["blocked", "int8"])
def test_a_network(tmp_path: Path, preparation: Preparation) -> None:
    x = torch.randn(1, 4, 12, 12, generator=torch.Generator().manual_seed(1))
    program, (ours,), (theirs,) = both(tmp_path, Net(), x, preparation)
    assert np.abs(ours - theirs).max() <= 0.0201
    assert np.ptp(theirs) > 0.2
    if preparation is INT8:
        assert program.count("def conv2d_quads") + program.count("def fused_conv2d_quads") == 2
    else:
        assert "int8" not in program, "nothing is made a whole number, and weights are dequantised beforehand"


def dynamic(choose: Callable[..., tuple[Tensor, Tensor]], least: int, most: int, kind: torch.dtype) -> Function:
    def function(x: Tensor) -> Tensor:
        scale, zero = choose(x, least, most, 1e-6, kind)
        q = OPS.quantize_per_tensor.tensor(x, scale, zero, least, most, kind)
        return OPS.dequantize_per_tensor.tensor(q, scale, zero, least, most, kind)

    return function


SCALES, ZEROS = torch.tensor([0.5, 0.25, 1.0, 2.0]), torch.tensor([0, 3, -4, 1])
FIXED: dict[str, Function] = {
    "steps": lambda x: OPS.quantize_per_tensor(x, 1.0, 0, -128, 127, torch.int8),
    "range": lambda x: OPS.quantize_per_tensor(x, 0.5, 7, 0, 15, torch.uint8),
    "channels": lambda x: OPS.quantize_per_channel(x, SCALES, ZEROS, 1, -8, 7, torch.int8),
    "last": lambda x: OPS.dequantize_per_channel(
        OPS.quantize_per_channel(x, SCALES, ZEROS, 2, -128, 127, torch.int8), SCALES, ZEROS, 2, -128, 127, torch.int8
    ),
    "other": lambda x: OPS.dequantize_per_tensor(
        OPS.quantize_per_tensor(x, 1.0, 0, -128, 127, torch.int8), 0.5, 3, -128, 127, torch.int8
    ),
    "view": lambda x: OPS.dequantize_per_tensor(
        OPS.quantize_per_tensor(x, 1.0, 2, -128, 127, torch.int8).reshape(-1), 1.0, 2, -128, 127, torch.int8
    ),
}
DYNAMIC: dict[str, Function] = {
    "asymmetric": dynamic(OPS.choose_qparams.tensor, -128, 127, torch.int8),
    "unsigned": dynamic(OPS.choose_qparams.tensor, 0, 127, torch.uint8),
    "symmetric": dynamic(OPS.choose_qparams_symmetric.tensor, -127, 127, torch.int8),
    "middle": dynamic(OPS.choose_qparams_symmetric.tensor, 0, 255, torch.uint8),
}


@pytest.mark.parametrize("functions", [FIXED, DYNAMIC], ids=["fixed", "dynamic"])
def test_operators_agree_with_pytorch(tmp_path: Path, functions: dict[str, Function]) -> None:
    """Halves, which are rounded to even, and what the range cuts off among them."""
    x = torch.arange(-24, 24).reshape(3, 4, 4) / 2
    _, found, expected = both(tmp_path, Of(functions.values()), x, PLAIN)
    for name, ours, theirs in zip(functions, found, expected, strict=True):
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6, err_msg=name)


def test_products_of_computed_scales_are_on_bytes(tmp_path: Path) -> None:
    rng = torch.Generator().manual_seed(0)
    weight = torch.randint(-127, 128, (16, 32), generator=rng, dtype=torch.int8)

    def product(x: Tensor) -> Tensor:
        w = OPS.dequantize_per_tensor(weight, 0.01, 0, -127, 127, torch.int8)
        return F.linear(DYNAMIC["asymmetric"](x), w) + F.linear(DYNAMIC["symmetric"](2 * x), w)

    program, (ours,), (theirs,) = both(tmp_path, Of([product]), torch.randn(2, 5, 32, generator=rng), INT8)
    assert program.count("matmul_quads") > 0
    assert "matmul_packed" not in program
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", ["0", "nan"])
def test_a_scale_that_is_none_is_refused(tmp_path: Path, scale: str) -> None:
    scales, zeros = torch.tensor([0.1, torch.nan, 0.1]), torch.zeros(3, dtype=torch.int64)

    def by_channel(x: Tensor) -> Tensor:
        given = scales * 2, zeros, 0, -128, 127, torch.int8
        return OPS.dequantize_per_channel(OPS.quantize_per_channel(x, *given), *given)

    wrong = Of([by_channel if scale == "nan" else lambda x: there_and_back(x, 0.0)])
    torch.export.save(torch.export.export(wrong, (torch.zeros(3, 4),)), tmp_path / "m.pt2")
    with pytest.raises(UnsupportedOperator, match=rf"which makes .* is not supported with a scale of {scale}; quant"):
        import_model.import_model(tmp_path / "m.pt2", "pt2")


def test_nothing_at_all_has_a_scale(tmp_path: Path) -> None:
    _, (ours,), _ = both(tmp_path, Of([DYNAMIC["asymmetric"]]), torch.zeros(3, 4, 4), PLAIN)
    assert not ours.any()
