"""Programs that compute with complex numbers inside: against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from one_operator import all_by_tvm
from torch import Tensor

from tunesmith.errors import UnsupportedOperator
from workers.tvm_backend.frontends import import_model

pytestmark = pytest.mark.parallel

X = torch.randn(2, 3, 6, 8, generator=torch.Generator().manual_seed(0))
TURNS = torch.polar(torch.ones(6, 4), torch.outer(torch.arange(6.0), 10.0 ** -torch.arange(4.0)))
WEIGHT = torch.randn(3, 5, 6, 5, generator=torch.Generator().manual_seed(1), dtype=torch.complex64)


class Net(torch.nn.Module):
    """What each function makes of the input: PyTorch takes a second for a program, however little there is in it."""

    def __init__(self, *functions: Callable[[Net, Tensor], Tensor]) -> None:
        super().__init__()
        self.functions = functions
        self.weight = torch.nn.Parameter(WEIGHT)
        self.register_buffer("turns", TURNS)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(self, x) for function in self.functions)


def rotated(net: Any, x: Tensor) -> Tensor:
    z = torch.view_as_complex(x.reshape(2, 3, 6, 4, 2)) * net.turns[None, None]
    return torch.view_as_real(z).flatten(3)


def operator(net: Any, x: Tensor) -> Tensor:
    """A layer of a Fourier neural operator (Li et al., 2021), which keeps the first modes."""
    found = torch.fft.rfft2(x)
    made = torch.zeros(2, 5, 6, 5, dtype=torch.complex64)
    made[:, :, :4, :3] = torch.einsum("bixy,ioxy->boxy", found[:, :, :4, :3], net.weight[:, :, :4, :3])
    return torch.fft.irfft2(made, s=(6, 8))


def wave(net: Any, x: Tensor) -> Tensor:
    z = torch.complex(x, x.roll(1, -1)) * (0.5 + 1j)
    z = torch.cat([z.transpose(2, 3)[..., None, 1:4].squeeze(-2), z.conj().permute(0, 1, 3, 2)[:, :, :, :3]], -1)
    return (z / (1 + z.abs()) + z.mean(1, keepdim=True)).flip(-1).imag + torch.angle(z) * torch.exp(-z).real


FUNCTIONS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "rotated": rotated,
    "operator": operator,
    "wave": wave,
    "mixed": lambda net, x: torch.fft.fft2(x, dim=(1, -1)).real,
    "filter": lambda net, x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * net.weight[0, 0], norm="ortho"),
    "odd": lambda net, x: torch.fft.irfft(torch.fft.rfft(x[..., :7], norm="forward") * 2, n=7, norm="forward"),
    "back": lambda net, x: torch.fft.ifft(torch.fft.fft(x, dim=2), dim=2).real,
    "shorter": lambda net, x: torch.fft.irfft(torch.fft.rfft(x, n=12), n=6),
    "frames": lambda net, x: torch.stft(x[0, 0], 4, 2, window=torch.hann_window(4), return_complex=True).abs(),
    "shifted": lambda net, x: torch.fft.ifft(x * 1j + (2 - 1j)).imag,
    "quotient": lambda net, x: (torch.fft.fft(x) / net.weight[0, 0, 0, 0]).abs(),
}


GROUPS = (
    ("rotated", "operator", "wave"),
    ("mixed", "filter", "back", "frames"),
    ("odd", "shorter", "shifted", "quotient"),
)
"""Those that are tried in one program."""


def imported(path: Path, net: Net) -> Any:
    torch.export.save(torch.export.export(net, (X,)), path)
    return import_model.import_model(path, "pt2")


def test_every_function_is_in_a_group() -> None:
    assert {name for group in GROUPS for name in group} == set(FUNCTIONS)


@pytest.mark.parametrize("group", GROUPS, ids="-".join)
def test_as_pytorch(tmp_path: Path, group: tuple[str, ...]) -> None:
    net = Net(*(FUNCTIONS[name] for name in group))
    found = all_by_tvm(imported(tmp_path / "m.pt2", net), X.numpy())
    with torch.no_grad():
        for name, ours, theirs in zip(group, found, net(X), strict=True):
            torch.testing.assert_close(
                torch.from_numpy(ours), theirs, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
            )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda net, x: torch.fft.fft(x), "the output .*fft.* of complex numbers"),
        (lambda net, x: torch.fft.fft(x).tanh().real, "aten.tanh.default of complex numbers"),
        (lambda net, x: torch.fft.fft(x, n=4096).real, "4096 elements along an axis"),
    ],
)
def test_what_is_refused_says_so(tmp_path: Path, function: Callable[[Any, Tensor], Tensor], message: str) -> None:
    with pytest.raises(UnsupportedOperator, match=message):
        imported(tmp_path / "m.pt2", Net(function))


def test_complex_inputs_are_refused(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(Net(lambda net, x: x.abs()), (WEIGHT,)), tmp_path / "m.pt2")
    with pytest.raises(UnsupportedOperator, match=r"the input .* of complex numbers"):
        import_model.import_model(tmp_path / "m.pt2", "pt2")
