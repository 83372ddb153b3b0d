"""``tunesmith tune`` from the outside, as a user sees it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from stack_probe import WORDS, children, nothing_left, processes, wait_for

from services.embedded.lock import NAME, holder
from tunesmith.client import Client
from tunesmith.states import JobState

pytestmark = pytest.mark.stack
GEMM = "gemm:128x128x128:float32"
WAIT = 180.0


def cli(env, *arguments, within=WAIT):
    return subprocess.run(
        [sys.executable, "-m", "tunesmith.cli", *map(str, arguments)],
        env=env, capture_output=True, text=True, timeout=within, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@contextmanager
def started(env, *arguments):
    process = subprocess.Popen(
        [sys.executable, "-m", "tunesmith.cli", *map(str, arguments)],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def running_job(data_dir):
    """The first job of the stack in ``data_dir``, once it has measured something."""

    def look():
        who = holder(data_dir)
        if "url" not in who:
            return None
        with Client(who["url"]) as client:
            if not client.ready():
                return None
            jobs = client.jobs().items
            return jobs[0] if jobs and jobs[0].state is JobState.RUNNING and jobs[0].progress.trials else None

    return wait_for(look, "a job that measures", WAIT)


def test_one_command_tunes_an_operator_without_a_compiler_and_leaves_no_process(tmp_path, stack_env):
    (tmp_path / "nothing").mkdir()
    stack_env = stack_env | {"PATH": str(tmp_path / "nothing")}  # neither compiler nor linker: the wheel's serve
    data_dir, out = tmp_path / "data", tmp_path / "out"
    done = cli(stack_env, "tune", GEMM, "--embedded", "--trials", 16, "--data-dir", data_dir, "--out", out, "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    summary = json.loads(done.stdout)
    assert summary == json.loads((out / "summary.json").read_text())
    assert summary["trials"] == 16
    assert min(summary["tuned_seconds"], summary["untuned_seconds"]) > 0
    assert summary["speedup"] == pytest.approx(summary["untuned_seconds"] / summary["tuned_seconds"])
    (line,) = [json.loads(line) for line in (out / "best.jsonl").read_text().splitlines()]
    assert line["schema"] == "tunesmith.schedule/1"
    assert {path.name for path in (out / "metaschedule").iterdir()} >= {
        "database_workload.json", "database_tuning_record.json", "module.json", "params.npz", "compile.py", "README.md",
    }  # fmt: skip
    assert processes(data_dir) == {}
    assert not (data_dir / NAME).exists()

    library = tmp_path / "model.so"
    compiled = cli(stack_env, "compile", GEMM, "--log", out / "best.jsonl", "-o", library, "--json")
    assert compiled.returncode == 0, compiled.stderr + compiled.stdout
    assert json.loads(compiled.stdout)["missing"] == []
    assert library.stat().st_size > 1000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_tune_leaves_nothing_behind(tmp_path, stack_env, number):
    data_dir = tmp_path / "data"
    with started(stack_env, "tune", GEMM, "--embedded", "--trials", 5000, "--data-dir", data_dir) as process:
        running_job(data_dir)
        assert all(children(data_dir, name) for name in WORDS)
        process.send_signal(number)
        process.wait(30.0)
        assert nothing_left(data_dir, 10.0), processes(data_dir)
    assert not (data_dir / NAME).exists() or number == signal.SIGKILL


def test_a_failing_job_leaves_nothing_behind(tmp_path, stack_env):
    model = tmp_path / "broken.onnx"
    model.write_bytes(b"this is no model at all")
    data_dir = tmp_path / "data"
    done = cli(stack_env, "tune", model, "--embedded", "--trials", 4, "--data-dir", data_dir, "--json")
    assert json.loads(done.stdout)["code"] == "not_a_model", done.stderr
    assert done.returncode == 2
    assert processes(data_dir) == {}
    assert not (data_dir / NAME).exists()
