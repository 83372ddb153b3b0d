"""``tunesmith tune`` from the outside, as a user sees it."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import surroundings
from pseudo_terminal import BAR, bar_faults, run_in_terminal
from stack_probe import children, nothing_left, processes, wait_for

from services.embedded.lock import NAME, holder
from tunesmith.cli.main import INTERRUPTED
from tunesmith.client import Client
from tunesmith.states import JobState

pytestmark = pytest.mark.stack
GEMM = "gemm:128x128x128:float32"
LIGHT = ("--embedded", "--search", "random", "--cost-model", "none")
"""For jobs of which only the processes matter."""
WAIT = 180.0
WATCHED = ["starting", "preparing", "tuning", "checking", "stopping", "done"]
BRIEF = "preparing"
"""Over before it is drawn, where a worker is quick."""
SILENCE = 15.0
"""Seconds; the line is drawn four times a second, but a machine that is overloaded may stop everything for a while."""


def cli(env, *arguments, within=WAIT):
    return subprocess.run(
        [sys.executable, "-m", "tunesmith.cli", *map(str, arguments)],
        env=env,
        capture_output=True,
        text=True,
        timeout=within,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(autouse=True)
def interrupts_are_heeded():
    """Where this suite runs in the background interrupts are ignored, and children would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def started(env, *arguments, cwd=None):
    process = subprocess.Popen(
        [surroundings.TUNESMITH, *map(str, arguments)],
        env=env,
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )
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
    command = [sys.executable, "-m", "tunesmith.cli", "tune", GEMM, "--embedded", "--trials", "3"]
    session = run_in_terminal(
        [*command, "--data-dir", "data", "--out", "out"], 80, stack_env, within=WAIT, cwd=tmp_path
    )
    *before, last = session.screens()
    assert session.status == 0, last
    assert bar_faults(session) == []
    phases = list(dict.fromkeys(row.split()[0] for screen in before for row in screen if BAR & set(row)))
    assert phases[0] == "starting"
    seen = [phase for phase in phases if phase in WATCHED]
    assert [phase for phase in WATCHED if phase in seen or phase != BRIEF] == seen
    assert phases[-1] == "done"
    assert session.longest_silence() < SILENCE
    summary = json.loads((out / "summary.json").read_text())
    assert summary["trials"] == 3
    assert min(summary["tuned_seconds"], summary["untuned_seconds"]) > 0
    assert summary["speedup"] == pytest.approx(summary["untuned_seconds"] / summary["tuned_seconds"])
    (line,) = [json.loads(line) for line in (out / "best.jsonl").read_text().splitlines()]
    assert line["schema"] == "tunesmith.schedule/1"
    assert line["verified"]["definition"] == "max|a-b| / max|b|"
    assert line["verified"]["error"] <= line["verified"]["tolerance"] == 1e-4
    assert {path.name for path in (out / "metaschedule").iterdir()} >= {
        "database_workload.json",
        "database_tuning_record.json",
        "module.json",
        "params.npz",
        "compile.py",
        "prefetch.py",
        "README.md",
    }
    assert processes(data_dir) == {}
    assert not (data_dir / NAME).exists()

    library = tmp_path / "model.so"
    compiled = cli(stack_env, "compile", GEMM, "--log", out / "best.jsonl", "-o", library, "--json")
    assert compiled.returncode == 0, compiled.stderr + compiled.stdout
    assert json.loads(compiled.stdout)["missing"] == []
    assert library.stat().st_size > 1000


@pytest.fixture
def own_env(tmp_path, stack_env):
    """With a temporary folder and a host lease that nobody else uses."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return stack_env | {"TMPDIR": str(temporary), "TUNESMITH_LEASE_FILE": str(tmp_path / "host.lease")}


def leftovers(data_dir, env, within=10.0):
    """What is still there ``within`` seconds of a stack's end, whose last process removes the lock as it goes."""
    end = time.monotonic() + within
    while (left := remains(data_dir, env)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def remains(data_dir, env):
    """What should not be there once a stack has ended: processes, sockets, locks, temporary files."""
    temporary, lease = Path(env["TMPDIR"]), Path(env["TUNESMITH_LEASE_FILE"])
    sockets = [path for folder in (data_dir, temporary) for path in folder.rglob("*") if path.is_socket()]
    held = []
    for path in lease.parent.glob(f"{lease.name}*"):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(path)
    locks = [path for path in (data_dir / NAME,) if path.exists()]
    return [*processes(data_dir).values(), *sockets, *held, *locks, *temporary.iterdir()]


def test_an_interrupted_tune_leaves_nothing_behind_in_strange_surroundings(tmp_path, own_env):
    folder = surroundings.hostile(tmp_path)
    data_dir, env = folder / surroundings.STRANGE, surroundings.without_unicode(own_env)
    command = ("tune", GEMM, *LIGHT, "--trials", 5000, "--data-dir", surroundings.STRANGE)
    with started(env, *command, cwd=folder) as process:
        running_job(data_dir)
        assert surroundings.told_secrets(surroundings.environments(data_dir)) == []
        process.send_signal(signal.SIGINT)
        assert process.wait(30.0) == INTERRUPTED
        assert nothing_left(data_dir, 10.0), processes(data_dir)
        process.stderr.read().encode("ascii")
    assert leftovers(data_dir, own_env) == []
    assert surroundings.sprung(folder) == ""
    assert surroundings.open_to_others(data_dir) == []


def test_a_kill_during_the_start_leaves_nothing_behind(tmp_path, own_env):
    data_dir = tmp_path / "data"
    with started(own_env, "tune", GEMM, "--embedded", "--trials", 4, "--data-dir", data_dir) as process:
        wait_for(lambda: children(data_dir, "coordinator"), "the stack to begin", WAIT)
        process.kill()
        assert process.wait(30.0) == -signal.SIGKILL
        assert nothing_left(data_dir, 10.0), processes(data_dir)
    assert leftovers(data_dir, own_env) == []


def test_what_is_no_model_starts_nothing(tmp_path, stack_env):
    model, data_dir = tmp_path / "broken.onnx", tmp_path / "data"
    model.write_bytes(b"this is no model at all")
    done = cli(stack_env, "tune", model, "--embedded", "--trials", 4, "--data-dir", data_dir, "--json")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, "not_a_model"), done.stderr
    assert not data_dir.exists()
