"""A stack that ``tunesmith up --detach`` left behind, as a user sees it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pasted import SHELL
from pseudo_terminal import Session, run_in_terminal
from stack_probe import nothing_left
from surroundings import STRANGE, TUNESMITH

COLUMNS = 72
WAIT = 120.0


@dataclass
class Detached:
    """A stack whose data are in the folder ``STRANGE`` of a working folder.

    Attributes:
        folder: where the commands are given.
        env: they are given with.
        terminal: that it was started in, which has ended.
        url: of its coordinator; empty where the start failed.
    """

    folder: Path
    env: Mapping[str, str]
    terminal: Session = field(init=False)
    url: str = ""

    @property
    def data_dir(self) -> Path:
        """The stack's data."""
        return self.folder / STRANGE

    def start(self, command: str) -> None:
        """Bring it up with a shell's command."""
        self.terminal = run_in_terminal([*SHELL, command], COLUMNS, self.env, WAIT, self.folder)
        self.url = self.answer("status")[1].get("url", "")

    def answer(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """The exit status of a command on its data, and what it prints."""
        done = subprocess.run(
            [TUNESMITH, *arguments, "--data-dir", STRANGE, "--json"],
            env=self.env,
            cwd=self.folder,
            timeout=WAIT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, json.loads(done.stdout)


@contextmanager
def stack(folder: Path, env: Mapping[str, str], command: str) -> Iterator[Detached]:
    """Bring one up with a command, and leave nothing of it."""
    made = Detached(folder, {**env, "TUNESMITH_DATA_DIR": STRANGE})
    try:
        made.start(command)
        yield made
    finally:
        made.answer("down", "--timeout", "0")
        assert nothing_left(made.data_dir, 30.0)
