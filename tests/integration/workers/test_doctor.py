from __future__ import annotations

import json

import pytest

from tunesmith.cli.main import run_command_line
from workers import commands_doctor

pytestmark = pytest.mark.parallel


def test_what_fails_decides_the_exit_status(monkeypatch, capsys):
    """What this machine's checks say is looked at in strange surroundings (``tests/e2e/test_surroundings.py``)."""
    for name in ("versions", "tools", "boxes", "tvm_works", "cuda", "devices"):
        monkeypatch.setattr(commands_doctor, name, list)
    failed, noted = (commands_doctor.Check(name, False, "no", "get one", name == "tvm") for name in ("tvm", "gpu"))
    for checks, status in (([noted], 0), ([failed, noted], 1)):
        monkeypatch.setattr(commands_doctor, "tvm_works", lambda checks=checks: checks)
        assert run_command_line(["doctor", "--json"]) == status
        answer = json.loads(capsys.readouterr().out)
        assert (answer["ok"], [check["name"] for check in answer["checks"]]) == (not status, [c.name for c in checks])
        assert answer["checks"][0]["remedy"] == "get one"


def test_a_noisy_host_is_remarked_on_and_passes():
    found = {
        "peak_flops": 5e11,
        "bandwidth": 4e10,
        "medians": [1e-3, 1.02e-3, 1.01e-3],
        "narrow_flops": {"bf16": 9.9e11, "int8": 1.98e12},
    }
    quiet = {check.name: check for check in commands_doctor.judge_figures(found)}
    assert quiet["peak"].detail.startswith("500 GFLOP/s")
    assert quiet["bf16"].detail == "990 GFLOP/s: 2 times the peak of float32"
    assert quiet["int8"].detail == "1980 GFLOP/s: 4 times the peak of float32"
    without = [each.detail for each in commands_doctor.judge_figures({**found, "narrow_flops": {}})][2:4]
    assert without == [
        "no instruction: float32 on 16-bit storage",
        "no instruction: products of 16 or 32 bits",
    ]
    assert (quiet["noise floor"].ok, quiet["noise floor"].remedy) == (True, "")
    noisy = {check.name: check for check in commands_doctor.judge_figures({**found, "medians": [1e-3, 1.4e-3]})}
    assert not noisy["noise floor"].ok
    assert not noisy["noise floor"].required
    assert "40.0%" in noisy["noise floor"].detail


@pytest.mark.parametrize("version", ["0.1.15", "0.2.0"])
def test_a_wrong_pair_of_tvm_and_ffi_is_named(monkeypatch, version):
    versions = {"apache-tvm-ffi": version}
    monkeypatch.setattr(commands_doctor, "_version", lambda name: versions.get(name, "1"))
    failed = [check for check in commands_doctor.versions() if check.required and not check.ok]
    assert [check.name for check in failed] == ["tvm pair"]
    assert "0.1.14" in failed[0].remedy


def test_nothing_to_link_with_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("workers.tvm_backend.build.linking._zig", lambda tool: None)
    failed = {check.name: check for check in commands_doctor.tools() if check.required and not check.ok}
    assert "ziglang" in failed["linker"].remedy


@pytest.mark.parametrize(("trust", "required"), [("0", True), ("1", False)])
def test_a_system_without_walls_is_told_of(monkeypatch, trust, required):
    monkeypatch.setenv("TUNESMITH_TRUST_MODELS", trust)
    monkeypatch.setattr(commands_doctor.probe, "probe", lambda: {"namespaces": "not permitted", "landlock": "no"})
    (check,) = commands_doctor.boxes()
    assert (check.ok, check.required) == (False, required)
    assert "not permitted" in check.detail
    assert "TUNESMITH_TRUST_MODELS=1" in check.remedy


def test_the_wall_that_is_there_is_named_with_the_one_that_lacks(monkeypatch):
    monkeypatch.setattr(commands_doctor.probe, "probe", lambda: {"namespaces": "not permitted", "landlock": ""})
    (check,) = commands_doctor.boxes()
    assert (check.ok, check.detail) == (True, "landlock (no namespaces: not permitted)")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_redis_is_needed_where_no_other_broker_is_named(monkeypatch, elsewhere):
    monkeypatch.delenv("TUNESMITH_BROKER_URL", raising=False)
    if elsewhere:
        monkeypatch.setenv("TUNESMITH_BROKER_URL", "redis://broker.example:6379")
    monkeypatch.setattr(commands_doctor, "_redis", lambda: None)
    found = {check.name: check for check in commands_doctor.tools()}["redis"]
    assert (found.ok, found.required) == (False, not elsewhere)


NOTHING = {"ok": False, "detail": "no NVIDIA driver here", "remedy": "install it", "gpus": []}


@pytest.mark.parametrize(
    ("classes", "simulate", "required"),
    [("", "0", (False, False)), ("nvidia-nvidia-h100", "0", (True, True)), ("nvidia-nvidia-h100", "1", (True, False))],
)
def test_a_gpu_is_needed_where_the_worker_measures_on_one(monkeypatch, classes, simulate, required):
    monkeypatch.setenv("TUNESMITH_DEVICE_CLASSES", classes)
    monkeypatch.setenv("TUNESMITH_SIMULATE", simulate)
    answer = {"compiler": {"name": None, "message": ""}, "runtime": NOTHING}
    monkeypatch.setattr(commands_doctor, "_answer", lambda module: answer)
    compiler, runtime = commands_doctor.cuda()
    assert (compiler.ok, runtime.ok) == (False, False)
    assert (compiler.required, runtime.required) == required
    assert "tunesmith[cuda]" in compiler.remedy
    assert (runtime.detail, runtime.remedy) == (NOTHING["detail"], NOTHING["remedy"])


def test_a_compiler_that_fails_is_told_of_with_its_first_error(monkeypatch):
    message = "trial.cu\nmma.h(55): catastrophic error: no crt/mma.h\n1 catastrophic error detected"
    answer = {"compiler": {"name": "nvrtc", "message": message}, "runtime": NOTHING}
    monkeypatch.setattr(commands_doctor, "_answer", lambda module: answer)
    compiler, _ = commands_doctor.cuda()
    assert not compiler.ok
    assert compiler.detail.endswith("mma.h(55): catastrophic error: no crt/mma.h")
    assert "one version" in compiler.remedy
