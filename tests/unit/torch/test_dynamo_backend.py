"""The backend of ``torch.compile``: which graphs it takes, freezes, refuses and leaves to eager mode, and why."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

import tunesmith
from tunesmith.errors import InvalidInput, JobFailed, TunesmithError, UnknownPrecision, UnknownTarget
from tunesmith.torch import dynamo as module

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def by_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Graphs are exported and saved as ever; the archive is then run by PyTorch, as it takes TVM seconds to compile."""

    def library(self: Any, name: str, model: Path, path: Path) -> Any:
        program = torch.export.load(model).module()
        return lambda tensors: list(program(*tensors))

    monkeypatch.setattr(module.Backend, "_library", library)
    yield
    torch.compiler.reset()


def compiled(net: nn.Module, **options: Any) -> tuple[Any, Any]:
    backend = tunesmith.torch.backend(**options)
    return torch.compile(net, backend=backend), backend


class Parts(nn.Module):
    """Two graphs with a break between them, an output that is no tensor, and a switch of the gradient mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first(x))
        torch._dynamo.graph_break()
        with torch.no_grad():
            return self.second(y) + x, y.shape[0]


@torch.no_grad()
def test_graphs_beside_a_break_keep_their_weights_and_dynamic_extents_are_frozen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = Parts().eval()
    fast, backend = compiled(net)
    for rows in (2, 3):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(fast(x), net(x))
    assert backend.eager == {}
    assert len(backend.compiled) == 4
    assert "has dynamic dimensions, frozen: " in caplog.text
    assert "'x' to [3, 4]" in caplog.text.replace("l_x_", "x")
    with torch.no_grad():
        net.first.bias.add_(1)
    x = torch.randn(3, 4)
    torch.testing.assert_close(fast(x), net(x))
    assert "weights changed after it was compiled; torch.compiler.reset()" in caplog.text


@pytest.mark.parametrize(
    ("net", "gradients", "words"),
    [
        (nn.Linear(4, 4).eval(), True, "requires gradients: call it under torch.no_grad"),
        (nn.Sequential(nn.Dropout()), False, "is in training mode.*call .eval"),
        (nn.Sequential(nn.BatchNorm1d(4)), False, "is in training mode.*call .eval"),
    ],
)
def test_training_is_refused(net: nn.Module, gradients: bool, words: str) -> None:
    fast, _ = compiled(net)
    with torch.set_grad_enabled(gradients), pytest.raises(BackendCompilerFailed, match=words):
        fast(torch.zeros(2, 4))


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x + self.calls


@torch.no_grad()
def test_a_graph_that_cannot_be_compiled_runs_in_eager_mode(caplog: pytest.LogCaptureFixture) -> None:
    fast, backend = compiled(Counts())
    assert [float(fast(torch.zeros(1))) for _ in range(2)] == [1, 2]
    assert backend.compiled == []
    (reason,) = backend.eager.values()
    assert "when it is called, and a tuned model has no state" in reason
    assert f"graph 0 runs in eager mode: {reason}" in caplog.messages


@torch.no_grad()
def test_what_is_tuned_behind_takes_the_graphs_place(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given: list[dict[str, Any]] = []

    def tune(program: Any, **options: Any) -> Any:
        given.append(options)
        if len(given) == 2:
            raise JobFailed("the device is gone")
        return SimpleNamespace(compile=Path, job=SimpleNamespace(target_json={}), inputs=[])

    monkeypatch.setattr(module, "tune", tune)
    monkeypatch.setattr(module, "Library", lambda *_: SimpleNamespace(run=lambda tensors: [tensors[0] + 100]))
    fast, backend = compiled(nn.Linear(4, 4).eval(), tune=7.0)
    x = torch.zeros(2, 4)
    fast(x)
    backend.wait()
    assert float(fast(x).min()) == 100
    torch.compiler.reset()
    fast(x)
    backend.wait()
    assert "graph 1 was not tuned: the device is gone" in caplog.messages
    assert [(each["time"], each["name"], each["target"]) for each in given] == [
        (7.0, f"graph {n}", "cpu") for n in (0, 1)
    ]


@torch.no_grad()
def test_pytorch_finds_the_backend_by_its_name_and_passes_its_options() -> None:
    found = re.search(r'torch_dynamo_backends\]\n(\w+) = "([^"]+)"', (ROOT / "pyproject.toml").read_text())
    assert found is not None
    name, value = found.groups()
    point = EntryPoint(name, value, "torch_dynamo_backends").load()
    assert name == "tunesmith"
    assert point is tunesmith.torch.compile_graph
    fast = torch.compile(nn.Linear(4, 4).eval(), backend=point, options={"precision": "bf16"})
    assert fast(torch.zeros(2, 4)).shape == (2, 4)
    fast = torch.compile(nn.Linear(4, 4).eval(), backend=point, options={"trials": 3})
    with pytest.raises(BackendCompilerFailed, match="no option 'trials': the backend takes the options server, target"):
        fast(torch.zeros(2, 4))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tune": True}, InvalidInput, "tune is a number of seconds for each graph, 1 or more, or False, not True"),
        ({"tune": 0.5}, InvalidInput, "not 0.5"),
        ({"precision": "float8"}, UnknownPrecision, "float8"),
        ({"target": "abacus"}, UnknownTarget, "abacus"),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[TunesmithError], words: str) -> None:
    with pytest.raises(error, match=words):
        tunesmith.torch.backend(**options)


def test_the_key_is_that_of_the_environment_unless_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNESMITH_KEY", "of the environment")
    assert tunesmith.torch.backend().settings.key == "of the environment"
    assert tunesmith.torch.backend(key="given").settings.key == "given"
