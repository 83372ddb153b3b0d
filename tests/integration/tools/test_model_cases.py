"""Whole networks as cases of the sweep, by a network of PyTorch's own: its libraries are not needed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.sweep import architectures, model_cases
from tools.sweep.architectures import Architecture
from tools.sweep.base import AGREES
from tools.sweep.running import compare
from tunesmith.errors import MissingDependency

pytestmark = pytest.mark.parallel
TINY = Architecture(
    "tiny",
    "torch.nn",
    lambda nn: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout2d(), nn.Flatten()),
    (1, 3, 6, 6),
)


def test_a_network_is_a_case_that_agrees_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_cases, "ARCHITECTURES", (TINY,))
    (case,) = model_cases.cases(["tiny.pt2"])
    assert (case.source, case.relative, case.absolute) == ("pt2", 0.0, 0.0)
    kind, error = compare(case, tmp_path)
    assert kind == AGREES
    assert 0 <= float(error) < model_cases.TOLERANCE


def test_a_library_that_is_missing_is_named_with_the_remedy() -> None:
    missing = Architecture("net", "no_such_library", lambda package: package.net, (1,))
    with pytest.raises(MissingDependency, match=f"needs the package no_such_library.*{architectures.EXTRAS}"):
        missing.network()
