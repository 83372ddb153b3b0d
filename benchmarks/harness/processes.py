"""A process with everything that it starts, and an end to all of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tunesmith.child_process import THREADS
from tunesmith.errors import MeasurementFailed, StackFailed
from tunesmith.safe_path import python

MARK = "TUNESMITH_BENCH_TREE"
ROOT = Path(__file__).resolve().parents[2]
PAUSE = 0.02
LEASE_SETTING = "TUNESMITH_LEASE_FILE"
STEERING = ("TUNESMITH_", "TVM_")
"""Beginnings of settings of another stack, and of the compiler in this process."""


def environment(**settings: str) -> dict[str, str]:
    """This process's environment without what steers it, and with some settings, for a child to start with.

    The host lease stays: other stacks of this host must still stand back while a kernel is timed.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == LEASE_SETTING or not (name.startswith(STEERING) or name in THREADS)
    }
    return kept | settings


def ask(module: str, job: Any, folder: Path, limit: float, what: str) -> Any:
    """What a module answers to a job, in a process of its own; see :func:`benchmarks.harness.child.answer`.

    Args:
        module: of this repository.
        job: a dataclass of plain values.
        folder: for the answer and a log.
        limit: seconds.
        what: could not be done when it gives no answer, for the error.

    Raises:
        MeasurementFailed: it gives none.
    """
    answer = folder / "answer.json"
    command = python(module, json.dumps(asdict(job)), str(answer))
    with Tree(command, log=folder / "log", folder=folder) as tree:
        status = tree.wait(limit)
        if status != 0:
            reason = f"no answer within {limit:g} s" if status is None else tree.tail()
            raise MeasurementFailed(f"{what}: {reason}")
    return json.loads(answer.read_text("utf-8"))


class Tree:
    """Runs a command; leaving the ``with`` block kills it and all its descendants, orphaned ones too.

    Descendants are found by a mark in their environment, which they inherit whoever adopts them; the command is found
    without it, too. It also dies with this process: start trees from a thread that lives as long as they shall.

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

    def __exit__(self, *_: object) -> None:
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
        entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        marked = {int(entry.name) for entry in entries if _carries(entry, mark)}
        # A device starts anew without whatever its candidates must not see, the mark included.
        running = {self._process.pid} if self._process is not None and self._process.poll() is None else set()
        return sorted(marked | running)

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
