"""The README's commands as somebody pastes them: word for word, but for budgets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import effort

ROOT = Path(__file__).parents[2]
PORT = 8700
"""Where the README's stack is."""
WAIT = 400.0
"""Seconds for the commands of one block, on a machine that is busy with others."""
BUDGETS = (
    (re.compile(r"(--time 20\b)"), r"\1 --trials 3"),
    (re.compile(r"((?:--trials |trials=|\"trials\": ))8\b"), r"\g<1>2"),
    (re.compile(r"\btime=60\b"), "trials=0"),
    (re.compile(r"--time 1$", re.MULTILINE), "--time 0.2"),
)
"""What the jobs and the comparison of the documents may cost, and what they cost here."""
SHELL = ("bash", "-e", "-o", "pipefail", "-c")


def blocks(quickstart: str) -> list[tuple[str, str]]:
    """Language and text of the commands below a heading."""
    section = (ROOT / "README.md").read_text().partition(f"## Quickstart: {quickstart}\n")[2].partition("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL)


def thrifty(text: str) -> str:
    """The same commands, whose jobs measure a few candidates; with ``TUNESMITH_TESTS=thorough`` as many as there."""
    if effort.THOROUGH:
        return text
    for budget, less in BUDGETS:
        text = budget.sub(less, text)
    return text


def activated(env: Mapping[str, str]) -> dict[str, str]:
    """With the environment's commands first, as ``activate`` puts them."""
    return {**env, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"}


def pasted(text: str, folder: Path, env: Mapping[str, str], shell: tuple[str, ...] = SHELL) -> str:
    """What the commands of a block print, all of which succeed."""
    done = subprocess.run(
        [*shell, text],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=WAIT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
