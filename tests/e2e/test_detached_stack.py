"""``up --detach``, ``status`` and ``down``, as a user sees them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pseudo_terminal import bar_faults, run, words_of
from stack_probe import WORDS, nothing_left, processes

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]
WAIT = 120.0
CLI = [sys.executable, "-m", "tunesmith.cli"]


def answer(env: dict[str, str], folder: Path, *arguments: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [*CLI, *arguments, "--data-dir", "data", "--json"],
        env=env,
        cwd=folder,
        timeout=WAIT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_a_detached_stack_outlives_its_terminal(tmp_path: Path, stack_env: dict[str, str]) -> None:
    data = tmp_path / "data"
    try:
        up = run([*CLI, "up", "--detach", "--port", "0", "--data-dir", "data"], 72, stack_env, WAIT, tmp_path)
        *starting, last = up.screens()
        assert up.status == 0, last
        assert bar_faults(up, starting) == []
        started = words_of(last).partition("started ")[2].partition(" process")[0]
        assert set(started.split(", ")) == set(WORDS)
        assert "tunesmith down --data-dir data" in words_of(last)
        status, found = answer(stack_env, tmp_path, "status")
        assert (status, found["state"], found["jobs"]) == (0, "ready", 0)
        assert str(found["url"]) in words_of(last)
        status, refused = answer(stack_env, tmp_path, "up", "--detach", "--port", "0")
        assert (status, refused["code"]) == (1, "stack_failed")
        assert f"process {found['pid']}" in str(refused["detail"])
        status, done = answer(stack_env, tmp_path, "down")
        assert (status, done["stopped"], done["killed"]) == (0, True, False)
        assert processes(data) == {}
    finally:
        answer(stack_env, tmp_path, "down", "--timeout", "0")
        assert nothing_left(data, 30.0)
    assert answer(stack_env, tmp_path, "status")[0] == 1
    log = (data / "logs" / "up.log").read_text().splitlines()
    assert [line.split(maxsplit=1)[1].split()[0] for line in log] == ["process", "up", "stopping", "ended"]
