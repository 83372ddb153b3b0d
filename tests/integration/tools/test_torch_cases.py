"""Samples of PyTorch's operators as cases: a few of its own database, and others with a database of their form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tools.sweep import torch_cases
from tools.sweep.base import AGREES, APART, REFUSED, Case, CaseOutcome
from tools.sweep.running import compare

pytestmark = pytest.mark.parallel
SAMPLE = (
    "linalg.det_float32",
    "logcumsumexp_float32",
    "nn.functional.pixel_shuffle_float32",
    "scatter_reduce.amax_float32",
    "special.i0e_float32",
)
"""Operators of PyTorch's own database, drawn from those that agree; the import alone takes five seconds."""


def sample(x: torch.Tensor) -> SimpleNamespace:
    return SimpleNamespace(input=x, args=(), kwargs={}, output_process_fn_grad=lambda found: found)


def info(name: str, op: Callable[..., Any]) -> SimpleNamespace:
    def samples(*_: object, **__: object) -> list[SimpleNamespace]:
        return [sample(torch.zeros(0)), sample(torch.tensor([[0.5, 0.25], [0.125, 0.75]]).t())]

    return SimpleNamespace(name=name, variant_test_name="", op=op, dtypes={torch.float32}, sample_inputs=samples)


def test_a_sample_is_a_case_or_named_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    infos = [
        info("linalg.inv", torch.linalg.inv),
        info("bernoulli", torch.bernoulli),
        info("equal", lambda x: torch.equal(x, x)),
        info("empty_like", torch.empty_like),
    ]
    monkeypatch.setattr(torch_cases, "_database", lambda: infos)
    found = list(torch_cases.cases())
    first, *rest = found
    assert isinstance(first, Case)
    assert (first.name, compare(first, tmp_path)) == ("linalg.inv_float32", (AGREES, ""))
    assert [(each.kind, each.detail.rpartition(": ")[2]) for each in rest if isinstance(each, CaseOutcome)] == [
        (APART, "it draws random numbers"),
        (APART, "it returns no tensor"),
        (APART, "its values are not defined"),
    ]
    assert [each.name for each in torch_cases.cases(["inv_float32"])] == ["linalg.inv_float32"]


def test_a_sample_of_pytorchs_own_database_agrees_or_is_refused(tmp_path: Path) -> None:
    made = {each.name: each for each in torch_cases.cases(SAMPLE) if each.name in SAMPLE}
    assert sorted(made) == sorted(SAMPLE)
    found = {name: compare(case, tmp_path)[0] for name, case in made.items() if isinstance(case, Case)}
    assert set(found.values()) <= {AGREES, REFUSED}
    assert list(found.values()).count(AGREES) >= len(SAMPLE) - 1
