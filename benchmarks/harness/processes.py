"""A process with everything that it starts, and an end to all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tunesmith.errors import StackFailed
from tunesmith.safe_path import python

MARK = "TUNESMITH_BENCH_TREE"
ROOT = Path(__file__).resolve().parents[2]
PAUSE = 0.02


class Tree:
    """Runs a command; leaving the ``with`` block kills it and all its descendants, orphaned ones too.

    Descendants are found by a mark in their environment, which they inherit whoever adopts them. The command itself
    also dies with this process: start trees from a thread that lives as long as they shall.

    Args:
        command: program and arguments; a module of this repository is found from any working folder.
        env: environment in place of this process's.
        log: file for the tree's standard output and error.
        folder: working folder.
    """

    def __init__(
        self, command: Sequence[str], *, log: Path, folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self._mark = uuid.uuid4().hex
        paths = [str(ROOT), *(path for path in sys.path if path)]
        inherited = dict(os.environ if env is None else env)
        self._env = {**inherited, MARK: self._mark, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
        self._command = [*python("workers.sandbox.parent_death", "--parent", str(os.getpid()), "--")]
        self._command += command
        self._log, self._folder = log, folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Tree:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C reaches this process, which then ends the tree
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def poll(self) -> int | None:
        """Exit status of the command; None while it runs."""
        return None if self._process is None else self._process.poll()

    def wait(self, timeout: float) -> int | None:
        """Wait for the command; None when it still runs after ``timeout`` seconds."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout)
        return None

    def members(self) -> list[int]:
        """Ids of the tree's living processes."""
        mark = f"{MARK}={self._mark}".encode()
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _carries(entry, mark)]

    def kill(self, timeout: float = 30.0) -> None:
        """End every process of the tree; returns when none is left.

        Raises:
            StackFailed: some live on after ``timeout`` seconds.
        """
        end = time.monotonic() + timeout
        while left := self.members():
            if time.monotonic() > end:
                raise StackFailed(f"processes {left} of a benchmark do not end")
            for pid in left:  # again and again: one may have started another since the look
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self._process is not None:
                self._process.poll()
            time.sleep(PAUSE)
        if self._process is not None:
            self._process.wait(timeout)

    def tail(self, lines: int = 3) -> str:
        """The end of what the tree has printed, on one line."""
        text = self._log.read_text("utf-8", errors="replace") if self._log.exists() else ""
        return " | ".join(line.strip() for line in text.strip().splitlines()[-lines:])


def _carries(entry: Path, mark: bytes) -> bool:
    try:
        if mark not in (entry / "environ").read_bytes().split(b"\0"):
            return False
        return (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
