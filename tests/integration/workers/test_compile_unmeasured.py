"""``tunesmith compile`` without a log: what the data folder knows, and choices without a measurement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import core_flow
import numpy as np
import pytest

from tunesmith.cli.main import run_command_line
from tunesmith.unmeasured import CONFIDENCE, Source
from workers.tvm_backend.design_space import unmeasured

import tvm  # isort: skip
from tvm import relax  # isort: skip

pytestmark = pytest.mark.parallel
OTHER = "gemm:128x64x96:float32"


def compiled(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    status = run_command_line(["compile", *map(str, arguments), "--target", core_flow.TARGET, "--json"])
    return status, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_measured_schedule_comes_first_then_the_static_models_then_a_relatives(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    context = core_flow.core_context(tmp_path, sqlite_url)
    core_flow.import_and_prepare(context)
    core_flow.report(context, core_flow.propose(context))
    context.sessions.kw["bind"].dispose()
    status, answer = compiled(capsys, core_flow.OPERATOR, "--data-dir", tmp_path, "-o", tmp_path / "known.so")
    assert status == 0, answer
    (known,) = answer["answers"]
    assert (known["source"], known["confidence"], known["relative"]) == ("measured", 1.0, None)
    status, answer = compiled(capsys, OTHER, "--data-dir", tmp_path, "-o", tmp_path / "other.so")
    assert (status, answer["answers"][0]["source"]) == (0, "estimated"), answer
    monkeypatch.setattr(unmeasured, "prior_of", lambda *_: None)
    status, answer = compiled(capsys, OTHER, "--data-dir", tmp_path, "-o", tmp_path / "other.so")
    assert status == 0, answer
    (other,) = answer["answers"]
    assert (other["source"], other["confidence"]) == ("rescaled", CONFIDENCE[Source.RESCALED])
    assert other["relative"] == known["workload"]
    assert (answer["schedules"], answer["missing"]) == (1, [])
    a, b = (np.random.default_rng(0).standard_normal(shape).astype("f") for shape in ((128, 96), (96, 64)))
    machine: Any = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "other.so")), tvm.cpu())
    ours = machine["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b)).numpy()
    np.testing.assert_allclose(ours, a @ b, 1e-4, 1e-4)


def test_where_nothing_is_known_the_static_model_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status, answer = compiled(capsys, OTHER, "-o", "made.so")
    assert status == 0, answer
    assert [each["source"] for each in answer["answers"]] == ["estimated"]
    assert 0 < answer["answers"][0]["seconds"] < 1
    assert answer["missing"] == []


@pytest.mark.parametrize(
    ("options", "code", "field"),
    [
        (("--data-dir", "nowhere"), "invalid_input", "data_dir"),
        (("--precision", "auto"), "invalid_input", "precision"),
        (("--precision", "bf17"), "unknown_precision", "precision"),
        (("--precision", "bf16"), "precision_unavailable", "precision"),
        (("--log", "best.jsonl", "--precision", "bf16"), "invalid_input", "precision"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    code: str,
    field: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, problem = compiled(capsys, OTHER, *options)
    assert (status, problem["code"], problem["errors"][0]["field"]) == (2, code, field)
    assert not (tmp_path / "model.so").exists()
