"""What programs compute of constants alone is computed while they are imported."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from one_operator import by_tvm
from torch import Tensor
from tvm import relax

from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.frontends.torch import constants

pytestmark = [pytest.mark.parallel, pytest.mark.filterwarnings("ignore::FutureWarning")]

X = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(torch.nn.Module):
    """A function of the input and of some weights."""

    def __init__(self, function: Callable[[Net, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.linspace(-1, 2, 4 * 3 * 3 * 3).reshape(4, 3, 3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def standardised(net: Net, x: Tensor) -> Tensor:
    spread, mean = torch.var_mean(net.weight, (1, 2, 3), keepdim=True)
    return F.conv2d(x, (net.weight - mean) * torch.rsqrt(spread + 1e-5))


def masked(net: Net, x: Tensor) -> Tensor:
    at = torch.arange(8)
    return x.masked_fill(at[None, :] > at[:, None], -1e9).softmax(-1)


def rotated(net: Net, x: Tensor) -> Tensor:
    angles = torch.outer(torch.arange(8.0), 1 / 100 ** (torch.arange(0, 8, 2) / 8)).repeat(1, 2)
    return x * angles.cos() + torch.cat([-x[..., 4:], x[..., :4]], -1) * angles.sin()


def halved(net: Net, x: Tensor) -> Tensor:
    first, second = (net.weight * 2).chunk(2)
    return F.conv2d(x, first) + F.conv2d(x, second)


def taken(net: Net, x: Tensor) -> Tensor:
    return x[0, 0][torch.arange(8)[:, None] // 2, torch.arange(8)[None] // 3]


def imported(folder: Path, net: torch.nn.Module, x: Tensor) -> relax.Function:
    torch.export.save(torch.export.export(net, (x,)), folder / "net.pt2")
    return import_model.import_model(folder / "net.pt2", "pt2")


def operators(mod: object) -> list[str]:
    found: list[str] = []
    relax.analysis.post_order_visit(
        mod["main"], lambda each: found.append(each.op.name) if isinstance(each, relax.Call) else None
    )  # type: ignore[index]
    return found


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (standardised, ["nn.conv2d"]),
        (masked, ["where", "nn.softmax"]),
        (rotated, ["multiply", "strided_slice", "negative", "strided_slice", "concat", "multiply", "add"]),
        (halved, ["nn.conv2d", "nn.conv2d", "add"]),
    ],
)
def test_only_what_depends_on_the_input_is_left(
    tmp_path: Path, function: Callable[[Net, Tensor], Tensor], left: list[str]
) -> None:
    net = Net(function)
    mod = imported(tmp_path, net, X)
    assert sorted(operators(mod)) == sorted(f"relax.{name}" for name in left)
    with torch.no_grad():
        np.testing.assert_allclose(by_tvm(mod, X.numpy()), net(X).numpy(), rtol=1e-4, atol=1e-5)


def test_indices_of_all_axes_are_taken_together(tmp_path: Path) -> None:
    net = Net(taken)
    np.testing.assert_array_equal(by_tvm(imported(tmp_path, net, X), X.numpy()), net(X).detach().numpy())


def folded(net: torch.nn.Module, x: Tensor) -> tuple[torch.export.ExportedProgram, list[str]]:
    program = torch.export.export(net, (x,)).run_decompositions()
    constants.fold(program)
    return program, names(program)


def names(program: torch.export.ExportedProgram) -> list[str]:
    return [node.target.overloadpacket.__name__ for node in program.graph.nodes if node.op == "call_function"]


def test_a_large_constant_of_small_ones_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def far(net: Net, x: Tensor) -> Tensor:
        at = torch.arange(8.0).exp()
        return x + (at[:, None] * at)

    assert folded(Net(far), X)[1] == ["add"]
    monkeypatch.setattr(constants, "MOST_BYTES", 100)
    assert folded(Net(far), X)[1] == ["mul", "add"]


def test_long_chains_of_constants_are_computed() -> None:
    """Longer than the stack may be deep, of which PyTorch itself needs some hundred frames."""

    def stepped(net: Net, x: Tensor) -> Tensor:
        at = torch.arange(8.0) / 8
        for _ in range(300):
            at = at + 0.5
        return x + at

    program = torch.export.export(Net(stepped), (X,)).run_decompositions()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 250)
    try:
        constants.fold(program)
    finally:
        sys.setrecursionlimit(limit)
    assert names(program) == ["add"]


def test_weights_that_are_only_moved_are_left() -> None:
    assert folded(Net(lambda net, x: x[0, 0, :, :3] @ net.weight[0, 0].T), X)[1].count("permute") == 1


def test_what_is_drawn_is_no_constant() -> None:
    assert "mul" in folded(Net(lambda net, x: x + torch.rand(8) * 2), X)[1]


def test_programs_return_what_they_did() -> None:
    program, _ = folded(Net(lambda net, x: (x, net.weight.exp())), X)  # type: ignore[arg-type,return-value]
    with torch.no_grad():
        _, second = program.module()(X)
    assert second.shape == (4, 3, 3, 3)
