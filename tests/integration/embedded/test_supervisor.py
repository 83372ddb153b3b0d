"""The supervisor with real processes: what it starts, it ends, whatever happens."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from process_probe import CHILD_ENV, gone

from services.embedded.lock import NAME, data_dir_lock
from tunesmith.cli import main
from tunesmith.errors import StackFailed

pytestmark = pytest.mark.servers
WAIT = 20.0


@contextmanager
def supervisor(folder, *children):
    process = subprocess.Popen(
        [sys.executable, "-m", "supervised", str(folder), *children],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **CHILD_ENV},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def pid_in(path, but=None):
    """The process id that a child wrote to a file."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        text = path.read_text() if path.exists() else ""
        if text.endswith("\n") and int(text) != but:
            return int(text)
        time.sleep(0.02)
    raise AssertionError(f"nothing wrote {path}")


def sleeper(path):
    return f"echo $$ > {path}; exec sleep 600"


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "end of input"])
def test_a_stop_ends_every_child_and_frees_the_lock(tmp_path, how):
    stubborn = f"trap '' TERM; echo $$ > {tmp_path}/b; while :; do sleep 1; done"
    escaped = f"setsid sh -c 'echo $$ > {tmp_path}/c; exec sleep 600' & exec sleep 600"
    with supervisor(tmp_path, f"a={sleeper(tmp_path / 'a')}", f"b={stubborn}", f"c={escaped}") as process:
        pids = [pid_in(tmp_path / name) for name in "abc"]
        assert process.stdout.readline() == "ready\n"
        if how == "end of input":
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[how])
        assert process.wait(WAIT) == 0
        assert all(gone(pid, 1.0) for pid in pids)
    assert not (tmp_path / NAME).exists()


def test_a_dead_child_is_started_again(tmp_path):
    with supervisor(tmp_path, f"a={sleeper(tmp_path / 'a')}") as process:
        first = pid_in(tmp_path / "a")
        os.kill(first, signal.SIGKILL)
        second = pid_in(tmp_path / "a", but=first)
        process.terminate()
        assert process.wait(WAIT) == 0
        assert gone(second, 1.0)


def test_five_quick_deaths_stop_the_stack_with_the_reason(tmp_path):
    with supervisor(tmp_path, f"a={sleeper(tmp_path / 'a')}", "b=echo the disk is full; exit 3") as process:
        other = pid_in(tmp_path / "a")
        assert process.wait(WAIT) == 1
        out = process.stdout.read()
        assert "stack_failed b died 5 times" in out
        assert "with status 3" in out
        assert "the disk is full" in out
        assert gone(other, 1.0)


def test_kill_9_of_the_supervisor_ends_its_children(tmp_path):
    with supervisor(tmp_path, f"a={sleeper(tmp_path / 'a')}") as process:
        pid = pid_in(tmp_path / "a")
        process.kill()
        process.wait(WAIT)
        assert gone(pid, 10.0)
    with data_dir_lock(tmp_path, "http://next"):
        pass


def test_a_second_stack_is_told_who_holds_the_directory(tmp_path):
    with data_dir_lock(tmp_path, "http://127.0.0.1:4711"):
        with pytest.raises(StackFailed, match=rf"process {os.getpid()} at http://127.0.0.1:4711") as caught:
            data_dir_lock(tmp_path, "http://other").__enter__()
        assert caught.value.problem()["holder"]["pid"] == os.getpid()
    with data_dir_lock(tmp_path, "http://other"):
        assert (tmp_path / NAME).exists()
    assert not (tmp_path / NAME).exists()


def command(capsys, *arguments):
    """Exit status and answer of a command."""
    status = main.run_command_line([*arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_down_ends_the_stack_that_holds_the_folder_with_every_child(tmp_path, capsys):
    folder = ("--data-dir", str(tmp_path))
    assert command(capsys, "status", *folder)[1]["state"] == "stopped"
    with supervisor(tmp_path, f"a={sleeper(tmp_path / 'a')}") as process:
        child = pid_in(tmp_path / "a")
        assert process.stdout.readline() == "ready\n"
        status, found = command(capsys, "status", *folder)  # no coordinator answers at the URL in its lock
        assert (status, found["state"], found["pid"]) == (1, "starting", process.pid)
        status, done = command(capsys, "down", *folder)
        assert (status, done["stopped"], done["killed"], done["pid"]) == (0, True, False, process.pid)
        assert gone(child, 1.0)
        assert process.wait(WAIT) == 0
    assert command(capsys, "down", *folder)[:1] == (0,)
    assert not (tmp_path / NAME).exists()


def test_down_kills_a_stack_that_does_not_end_and_names_what_it_left(tmp_path, capsys):
    folder = ("--data-dir", str(tmp_path))
    with supervisor(tmp_path, f"a={sleeper(tmp_path / 'a')}") as process:
        child = pid_in(tmp_path / "a")
        process.send_signal(signal.SIGSTOP)
        status, done = command(capsys, "down", *folder, "--timeout", "0.1")
        assert (status, done["stopped"], done["killed"]) == (0, True, True)
        assert gone(child, 10.0)
    assert command(capsys, "status", *folder)[1]["state"] == "killed"
    assert main.run_command_line(["down", *folder]) == 0
    assert "the last one was killed" in " ".join(capsys.readouterr().out.split())
    with data_dir_lock(tmp_path, "http://next") as killed:
        assert killed
    with data_dir_lock(tmp_path, "http://next") as killed:
        assert not killed


def test_a_lock_that_somebody_else_holds_is_named_and_left_alone(tmp_path, capsys):
    """The process that the file names runs, and does not hold it."""
    path = tmp_path / NAME
    path.write_text(json.dumps({"pid": os.getppid(), "url": "http://127.0.0.1:1"}))
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for name in ("status", "down"):
            status, problem = command(capsys, name, "--data-dir", str(tmp_path))
            assert (status, problem["code"]) == (1, "stack_failed")
            assert f"the file names process {os.getppid()}" in problem["detail"]
