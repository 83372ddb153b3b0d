from __future__ import annotations

import os
import signal
import subprocess
import sys

from process_probe import CHILD_ENV, gone


def launcher(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "workers.sandbox.parent_death", *arguments]
    return subprocess.run(
        command, env={**os.environ, **CHILD_ENV}, capture_output=True, text=True, timeout=60, check=False, **options
    )


def test_command_takes_the_launchers_place() -> None:
    done = launcher("--parent", str(os.getpid()), "--", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")


def test_a_parent_that_is_already_gone_is_noticed() -> None:
    done = launcher("--parent", "1" if os.getpid() != 1 else "2", "--", "sh", "-c", "echo out")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""


def test_usage_and_missing_commands_are_refused() -> None:
    assert launcher("sh").returncode == 2
    done = launcher("--", "/nonexistent/program")
    assert done.returncode == 127
    assert "cannot start /nonexistent/program" in done.stderr


def test_launched_program_dies_with_a_killed_parent() -> None:
    script = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-m', 'workers.sandbox.parent_death', '--parent',"
        " str(os.getpid()), '--', 'sh', '-c', 'echo $$; exec sleep 600'], stdout=subprocess.PIPE, text=True)\n"
        "print(child.stdout.readline().strip(), flush=True)\n"
        "child.wait()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, **CHILD_ENV}, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
    finally:
        parent.kill()
        parent.communicate(timeout=30)
    assert gone(pid)
