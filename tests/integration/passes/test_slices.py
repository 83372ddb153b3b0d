"""Three-dimensional maps as images of their slices: the same results, and nothing left of three dimensions."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from effort import examples, some
from encoders import save
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_nets import Array, calls, run_network
from torch import Tensor, nn

from tunesmith.preparation import Preparation
from workers.tvm_backend.warm import warm

warm("llvm")

from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import pipeline  # noqa: E402
from workers.tvm_backend.passes.layout.slices import phase_kernels  # noqa: E402
from workers.tvm_backend.passes.layout.transposed import Axis  # noqa: E402

pytestmark = pytest.mark.parallel
BLOCKED, BY_WINOGRAD = Preparation(blocked=True), Preparation(blocked=True, winograd=True)
FEW = settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


class Block(nn.Module):
    """A residual block (R3D), whose second convolution is one of slices (R(2+1)D)."""

    def __init__(self, inputs: int, outs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv3d(inputs, outs, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm3d(outs)
        nn.init.uniform_(self.norm.running_var, 0.5, 2.0)  # type: ignore[arg-type]
        self.second = nn.Conv3d(outs, outs, (1, 3, 3), 1, (0, 1, 1))
        self.short = nn.Conv3d(inputs, outs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.norm(self.first(x)))) + self.short(x))


class Video(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv3d(3, 16, (3, 5, 5), (1, 2, 2), (1, 2, 2))
        self.blocks = nn.Sequential(Block(16, 32, 1), Block(32, 40, 2))
        self.tail, self.last = nn.Conv3d(40, 24, (3, 1, 1), (2, 1, 1), (1, 0, 0)), nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(F.max_pool3d(F.relu(self.stem(F.pad(x, (1, 0, 0, 1, 1, 1)))), 3, 2, 1))
        z = self.tail(F.avg_pool3d(y, 2, 1))
        return self.last(torch.cat([z, torch.exp(-z * z)], 1).mean((2, 3, 4)))


class Decoder(nn.Module):
    """Upwards, as in a U-Net of volumes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv3d(2, 16, 3, padding=1), nn.InstanceNorm3d(32, affine=True)
        self.twice = nn.ConvTranspose3d(16, 32, 2, 2)
        self.more = nn.ConvTranspose3d(32, 16, (3, 4, 3), (2, 2, 1), 1, (1, 0, 0))
        self.same, self.out, self.share = nn.Conv3d(16, 16, 3, 1, 1), nn.Conv3d(16, 8, 1), nn.AdaptiveAvgPool3d(1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = F.silu(self.more(F.relu(self.norm(self.twice(F.relu(self.first(x)))))))
        z = self.out(F.relu(self.same(y)) + y)
        return z, self.share(z)


def functions(made: pipeline.Prepared) -> collections.Counter[str]:
    found = calls(made.module)
    assert not [name for name in found if "3d" in name], found
    return found


def prepared(net: nn.Module, x: Tensor, folder: Path, preparation: Preparation = BLOCKED) -> pipeline.Prepared:
    save(net.eval(), (x,), folder / "net.pt2")
    return pipeline.prepare(import_model.import_model(folder / "net.pt2", "pt2"), preparation)


def close(ours: Sequence[Array], theirs: Sequence[Tensor]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=1e-4 * float(b.abs().max()))


@pytest.mark.parametrize(("n", "preparation"), [(1, BY_WINOGRAD), (2, BLOCKED)])
def test_a_network_of_videos(tmp_path: Path, n: int, preparation: Preparation) -> None:
    torch.manual_seed(0)
    net, x = Video(), torch.randn(n, 3, 6, 16, 12)
    made = prepared(net, x, tmp_path, preparation)
    found = functions(made)
    assert sum(count for name, count in found.items() if "conv2d_blocked" in name) == 8, found
    assert found["gathered_slices"] > 0, "maps in blocks are gathered in blocks"
    with torch.no_grad():
        close(run_network(made, x.numpy()), [net(x)])


@pytest.mark.parametrize("n", some([1, 2]))
def test_a_decoder_of_volumes(tmp_path: Path, n: int) -> None:
    torch.manual_seed(0)
    net, x = Decoder(), torch.randn(n, 2, 3, 5, 6)
    made = prepared(net, x, tmp_path)
    functions(made)
    with torch.no_grad():
        close(run_network(made, x.numpy()), net(x))


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[nn.Module, tuple[int, ...]]:
    """One of three dimensions, and the extents of its input."""

    def three(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(3))

    kernel, stride, padding, dilation = three(1, 3), three(1, 2), three(0, 2), three(1, 2)
    channels, outs = draw(st.sampled_from([3, 16, 20])), draw(st.sampled_from([8, 16, 24]))
    extents = [dilated * (size - 1) + extra for dilated, size, extra in zip(dilation, kernel, three(1, 4), strict=True)]
    net = nn.Conv3d(channels, outs, kernel, stride, padding, dilation)  # type: ignore[arg-type]
    return net, (draw(st.integers(1, 2)), channels, *extents)


@FEW
@given(case=convolutions(), seed=st.integers(0, 9))
def test_any_convolution(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[nn.Module, tuple[int, ...]], seed: int
) -> None:
    net, shape = case
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    made = prepared(net, x, tmp_path_factory.mktemp("slices"))
    functions(made)
    with torch.no_grad():
        close(run_network(made, x.numpy()), [net(x)])


@settings(FEW, max_examples=examples(100))
@given(
    size=st.integers(1, 6),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    more=st.integers(0, 2),
)
def test_phases_of_slices(size: int, kernel: int, stride: int, padding: int, more: int) -> None:
    out = (size - 1) * stride - 2 * padding + kernel + more
    axis = Axis.of(size, out, kernel, stride, padding) if out > 0 and more < stride else None
    if axis is None:
        return
    torch.manual_seed(size + 7 * kernel)
    x, weight = torch.randn(1, 2, size, 4, 3), torch.randn(2, 3, kernel, 2, 2)
    theirs = F.conv_transpose3d(x, weight, None, (stride, 1, 1), (padding, 0, 0), (more, 0, 0))
    padded = F.pad(x[0].transpose(0, 1), (0, 0, 0, 0, 0, 0, axis.before, axis.after))
    windows = torch.cat([padded[tap : tap + axis.steps] for tap in range(axis.taps)], 1)
    found = F.conv_transpose2d(windows, torch.from_numpy(phase_kernels(weight.numpy(), axis)))
    slices = found.reshape(axis.steps * stride, 3, *found.shape[2:])[axis.cut : axis.cut + out]
    torch.testing.assert_close(slices.transpose(0, 1)[None], theirs, rtol=1e-4, atol=1e-4)


POOLS: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda x: F.max_pool3d(x, (2, 3, 3), (1, 2, 2), (1, 1, 1)),
    "ceil": lambda x: F.max_pool3d(x, 2, ceil_mode=True),
    "dilated": lambda x: F.max_pool3d(x, 2, 1, dilation=2),
    "planes": lambda x: F.max_pool3d(x, (1, 2, 2)),
    "deep": lambda x: F.avg_pool3d(x, (3, 1, 1), 1),
    "mean": lambda x: F.avg_pool3d(x, 2, padding=1),
    "own": lambda x: F.avg_pool3d(x, 2, 1, 1, False, False),
    "whole": lambda x: F.adaptive_avg_pool3d(x, 1),
    "halves": lambda x: F.adaptive_avg_pool3d(x, 2),
    "factors": lambda x: x * torch.arange(5.0).reshape(5, 1, 1) / 3.0,
    "slices": lambda x: torch.cat([x, x], 2),
    "both": lambda x: torch.cat([x, x.flip(0)], 1),
    "largest": lambda x: x.amax((2, 3, 4)),
}


class Behind(nn.Module):
    """Some convolutions, and something behind each."""

    def __init__(self, functions: Sequence[Callable[[Tensor], Tensor]]) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv3d(3, 16, 3, padding=1) for _ in functions)
        self.functions = functions

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(layer(x)) for function, layer in zip(self.functions, self.convolutions, strict=True))


@pytest.mark.parametrize("names", [list(POOLS)[:4], list(POOLS)[4:9], list(POOLS)[9:]], ids="-".join)
def test_what_stands_behind(tmp_path: Path, names: list[str]) -> None:
    torch.manual_seed(0)
    net, x = Behind([POOLS[name] for name in names]), torch.randn(2, 3, 5, 7, 6)
    made = prepared(net, x, tmp_path)
    assert not [each for each in calls(made.module) if "conv3d" in each]
    with torch.no_grad():
        close(run_network(made, x.numpy()), net(x))


@pytest.mark.parametrize(
    "net",
    [
        nn.Conv3d(16, 16, 3, groups=4),
        nn.ConvTranspose3d(16, 16, 2, dilation=2),
        nn.ConvTranspose3d(16, 16, 2, groups=2),
    ],
)
def test_what_stays(tmp_path: Path, net: nn.Module) -> None:
    x = torch.randn(1, 16, 4, 5, 6)
    made = prepared(net, x, tmp_path)
    assert [each for each in calls(made.module) if "conv3d" in each]
    with torch.no_grad():
        close(run_network(made, x.numpy()), [net(x)])


def test_groups_of_one_slice(tmp_path: Path) -> None:
    net, x = nn.Conv3d(16, 16, (1, 3, 3), groups=16), torch.randn(1, 16, 4, 5, 6)
    made = prepared(net, x, tmp_path)
    assert [each for each in functions(made) if "depthwise" in each]
    with torch.no_grad():
        close(run_network(made, x.numpy()), [net(x)])
