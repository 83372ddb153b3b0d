"""``tunesmith bench gpu`` as far as it goes without a GPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from benchmarks.gpu import figures, machine
from benchmarks.gpu.jobs import Tuned
from tunesmith.cli.main import run_command_line
from tunesmith.errors import InvalidInput, MissingDependency, TargetUnavailable

pytestmark = pytest.mark.parallel

RIGHT = Tuned(
    "gemm:1024x1024x1024:float16", 2.0**31, 2e-4, 1e-4, 60, {"build_error": 3, "run_error": 1}, "no", 2.5, 1e-3
)
COMPILER = {"name": "nvrtc", "message": ""}
RUNTIME = {
    "ok": True,
    "detail": "NVIDIA H100 80GB HBM3 (sm_90); driver for CUDA 13.0, runtime 13.5",
    "remedy": "",
    "gpus": [["NVIDIA H100 80GB HBM3", "sm_90"]],
}


@pytest.mark.parametrize(
    ("name", "arch", "tag"),
    [
        ("NVIDIA A100-SXM4-80GB", "sm_80", "nvidia/nvidia-a100"),
        ("NVIDIA A30", "sm_80", "nvidia/nvidia-a30"),
        ("NVIDIA H100 80GB HBM3", "sm_90", "nvidia/nvidia-h100"),
        ("NVIDIA H200", "sm_90", "nvidia/nvidia-h100"),
        ("NVIDIA GeForce RTX 3080", "sm_86", "nvidia/geforce-rtx-3080"),
        ("NVIDIA GeForce RTX 3080 Ti", "sm_86", "nvidia/geforce-rtx-3080-ti"),
    ],
)
def test_a_gpu_has_the_tag_of_its_name_or_of_its_architecture(name: str, arch: str, tag: str) -> None:
    assert machine.target_of(name, arch).name == tag


def test_a_gpu_that_no_tag_knows_has_the_limits_of_all() -> None:
    target = machine.target_of("NVIDIA X1", "sm_990").target
    assert target is not None
    assert target.json["arch"] == "sm_990"
    assert target.json["max_threads_per_block"] == 1024


def found(monkeypatch: pytest.MonkeyPatch, runtime: dict[str, Any], compiler: dict[str, Any]) -> machine.Machine:
    monkeypatch.setattr(machine, "_check", lambda: {"runtime": runtime, "compiler": compiler})
    return machine.find(None, simulate=False)


def test_the_machine_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    here = found(monkeypatch, RUNTIME, COMPILER)
    assert (here.name, here.target.name) == ("NVIDIA H100 80GB HBM3", "nvidia/nvidia-h100")
    assert here.facts["CUDA"] == "driver for CUDA 13.0, runtime 13.5"


def test_what_a_gpu_lacks_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TargetUnavailable, match="no driver; install it"):
        found(monkeypatch, {"ok": False, "detail": "no driver", "remedy": "install it", "gpus": []}, COMPILER)
    with pytest.raises(MissingDependency, match="no header"):
        found(monkeypatch, RUNTIME, {"name": "nvrtc", "message": "no header"})


@pytest.mark.parametrize(("target", "simulate"), [("cpu", False), ("cuda", False), (None, True)])
def test_a_target_that_is_no_gpu_is_refused(target: str | None, simulate: bool) -> None:
    with pytest.raises(InvalidInput) as caught:
        machine.find(target, simulate)
    assert caught.value.field == "target"


def test_invented_figures_go_to_no_page(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--simulate", "--target", "nvidia/nvidia-h100", "--docs", "docs/benchmarks.md"]
    assert run_command_line(["bench", "gpu", *asked]) != 0
    assert "invented" in capsys.readouterr().err


def test_the_table_has_throughput_and_failures() -> None:
    report = figures.gpu([RIGHT, Tuned("gemm:8x8x8:float32", 1024.0, problem="failed: no memory")], {}, simulate=False)
    first, second = (dict(zip(report.columns, row, strict=True)) for row in report.rows)
    assert first["tuned, µs"] == pytest.approx(100.0)
    assert first["times as fast"] == pytest.approx(2.0)
    assert first["TFLOP/s"] == pytest.approx(21.47, rel=1e-3)
    assert first["failed"] == "3 build_error, 1 run_error"
    assert second["tuned, µs"] is None
    assert "Invented" not in report.summary
    assert "Invented" in figures.gpu([RIGHT], {}, simulate=True).summary


@pytest.mark.parametrize(
    ("change", "simulate", "problem"),
    [
        ({}, False, ""),
        ({"problem": "failed: no memory"}, False, "no memory"),
        ({"candidates": 0}, False, "no candidate runs, of 4 that failed: no"),
        ({"best": None}, False, "no candidate runs"),
        ({"output_error": None}, False, "not compared"),
        ({"output_error": None}, True, ""),
    ],
)
def test_only_a_right_schedule_is_right(change: dict[str, Any], simulate: bool, problem: str) -> None:
    said = figures.wrong(dataclasses.replace(RIGHT, **change), simulate)
    assert problem in said
    assert bool(said) == bool(problem)
