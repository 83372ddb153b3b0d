"""Commands that apply a log prepare the model as its job did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tunesmith.cli.main import run_command_line
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.schedule_log import SCHEMA, ScheduleLog
from tunesmith.targets import Target
from workers import commands_compare, commands_compile
from workers.tvm_backend.build import local_model

OPERATOR = "softmax:2x8x8:float32"
TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}
EXACT, FAST = Preparation(blocked=True), Preparation(fast_math=True)


class Asked(Exception):
    """What a local model was asked to be."""


class FakeModel:
    def __init__(self, model: str, inputs: Any, folder: Path, preparation: Preparation) -> None:
        raise Asked(preparation)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "best.jsonl"
    workload = {"metaschedule": ["1", "module"], "args": [["float32", [8, 8]]]}
    entry = {
        "schema": SCHEMA,
        "workload": workload,
        "target": TARGET,
        "trace": [[], []],
        "latency": {"median": 1.0},
        "provenance": {"preparation": EXACT.key},
    }
    path.write_text(json.dumps(entry))
    return path


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_command_line([*arguments, "--json"]) == 1
    return str(json.loads(capsys.readouterr().out)["detail"])


def test_compile_takes_the_preparation_of_the_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: Path
) -> None:
    monkeypatch.setattr(commands_compile, "LocalModel", FakeModel)
    monkeypatch.setattr(commands_compile, "local_target", lambda _: Target(TARGET))
    out = tmp_path / "model.so"
    assert asked(capsys, "compile", OPERATOR, "--log", str(log), "-o", str(out)) == f"Asked: {EXACT}"
    log.write_text("")
    assert run_command_line(["compile", OPERATOR, "--log", str(log), "-o", str(out)]) == 2, "an empty file is no log"


def test_compare_takes_the_preparation_of_the_log_else_the_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    monkeypatch.setattr(commands_compare, "LocalModel", FakeModel)
    monkeypatch.setattr(commands_compare, "local_target", lambda _: Target(TARGET))
    assert asked(capsys, "compare", OPERATOR, "--log", str(log)) == f"Asked: {EXACT}"
    assert asked(capsys, "compare", OPERATOR) == f"Asked: {FAST}"


@pytest.mark.parametrize(
    ("model", "target", "expected"),
    [
        ("net.onnx", TARGET, Preparation(blocked=True, fast_math=True, winograd=True)),
        (OPERATOR, TARGET, FAST),
        ("net.onnx", {"kind": "cuda", "arch": "sm_90"}, PLAIN),
    ],
)
def test_the_default_is_that_of_a_job(model: str, target: dict[str, Any], expected: Preparation) -> None:
    assert local_model.default_preparation(model, Target(target)) == expected


def test_compile_says_what_could_not_be_had(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    def compiled(
        model: str, shapes: Any, library: Path, target: str | None, given: ScheduleLog
    ) -> commands_compile.Compiled:
        library.touch()
        return commands_compile.Compiled(Target(TARGET), given.preparation.key, 1, [], (), "maps in blocks do not fit")

    monkeypatch.setattr(commands_compile, "_by_log", compiled)
    log.write_text(log.read_text().replace(EXACT.key, Preparation(blocked=True, bf16=True).key))
    arguments = ["compile", OPERATOR, "--log", str(log), "-o", str(log.with_name("model.so"))]
    assert run_command_line(arguments) == 0
    said = capsys.readouterr().err
    assert "precision: bf16" in said
    assert "note: maps in blocks do not fit" in said
    assert run_command_line([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["precision"], answer["note"]) == ("bf16", "maps in blocks do not fit")
