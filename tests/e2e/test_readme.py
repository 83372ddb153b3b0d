"""The README's commands, word for word, as somebody pastes them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_nets import Net
from stack_probe import nothing_left, processes

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
PORT = 8700
WAIT = 400.0
"""Seconds for the commands of one block, on a machine that is busy with others."""


def blocks(quickstart: str) -> list[tuple[str, str]]:
    """Language and text of the commands below a heading."""
    section = (ROOT / "README.md").read_text().partition(f"## Quickstart: {quickstart}\n")[2].partition("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def env(whole_env: dict[str, str]) -> dict[str, str]:
    """With the environment's commands first, as ``activate`` puts them."""
    return whole_env | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{whole_env['PATH']}"}


@pytest.fixture
def folder(tmp_path: Path, env: dict[str, str]) -> Iterator[Path]:
    """A working folder with a small model; whatever was started in it is ended."""
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", PORT)), f"port {PORT} is taken: the README's commands need it"
    net = Net(1, 8, 16, 16)
    net.save(tmp_path / "model.onnx", net.op("Relu", net.conv("x", 16)))
    yield tmp_path
    pasted("tunesmith down", tmp_path, env)
    assert nothing_left(tmp_path / ".tunesmith", 10.0), processes(tmp_path / ".tunesmith")


def pasted(text: str, folder: Path, env: dict[str, str], *shell: str) -> str:
    done = subprocess.run(
        [*(shell or ("bash", "-e", "-o", "pipefail", "-c")), text],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=WAIT,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_what_is_pasted_works(folder: Path, env: dict[str, str]) -> None:
    (_, install), (_, commands) = blocks("command line")
    pasted(install, ROOT, env)
    printed = pasted(commands, folder, env)
    assert "onnxruntime" in printed
    assert json.loads((folder / "tuned" / "summary.json").read_text())["tuned_seconds"] > 0
    (line,) = (folder / "best.jsonl").read_text().splitlines()
    assert json.loads(line)["schema"] == "tunesmith.schedule/1"
    assert (folder / "gemm" / "compile.py").exists()
    assert (folder / "model.so").stat().st_size > 1000

    ((_, requests),) = blocks("REST")
    answers = pasted(requests, folder, env)
    assert "event: job_succeeded" in answers
    assert {json.loads(row)["schema"] for row in (folder / "rest.jsonl").read_text().splitlines()} == {
        "tunesmith.schedule/1"
    }

    ((_, program),) = blocks("Python")
    assert " s -> " in pasted(program, folder, env, sys.executable, "-c")
    assert (folder / "tuned-in-python" / "compile.py").exists()
