"""Graphs of ``torch.compile`` by TVM: a convolution and attention beside a break, and an operator that is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tunesmith
from workers.tvm_backend.design_space import unmeasured

pytestmark = pytest.mark.parallel


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8)

    def forward(self, maps: Any) -> Any:
        maps = torch.relu(self.norm(self.conv(maps)))
        torch._dynamo.graph_break()
        places = maps.flatten(2).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(places, places, places)
        torch._dynamo.graph_break()
        return mixed + torch.linalg.eigvals(mixed[0, :8, :8]).real.sum()


@torch.no_grad()
def test_each_graph_is_compiled_with_what_is_known_or_runs_in_eager_mode(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUNESMITH_SERVER", raising=False)
    for name in ("DRAWN", "CONSTRUCTED", "NESTS"):  # any schedule will do
        monkeypatch.setattr(unmeasured, name, 1)
    caplog.set_level("INFO", "tunesmith.torch")
    torch.manual_seed(0)
    net, maps = Mixed().eval(), torch.randn(1, 4, 4, 4)
    backend = tunesmith.torch.backend(data_dir=tmp_path)
    fast = torch.compile(net, backend=backend)
    torch.testing.assert_close(fast(maps), net(maps), rtol=1e-3, atol=1e-3)
    torch.compiler.reset()
    assert backend.compiled == ["graph 0", "graph 1"]
    assert "graph 0 is compiled; schedules: " in caplog.text
    assert " estimated" in caplog.text
    assert list(backend.eager) == ["graph 2"]
    assert "linalg_eig" in backend.eager["graph 2"]
