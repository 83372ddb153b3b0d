"""One supervised process: start, restart with backoff, stop."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunesmith.errors import SchemaMismatch, StackFailed
from tunesmith.safe_path import python

QUICK = 10.0
"""A life shorter than this many seconds is a quick death."""
MAX_QUICK_DEATHS = 5
FIRST_BACKOFF, LAST_BACKOFF = 0.2, 5.0
MAX_LOG_BYTES = 20_000_000
TAIL_BYTES = 2_000


def _always() -> bool:
    return True


@dataclass(frozen=True)
class ChildSpec:
    """What to run.

    Attributes:
        name: for logs and messages.
        command: program and arguments.
        env: the whole environment.
        stdin: written to its standard input, which is then closed.
        may_start: asked before each start; False postpones it.
        wave: children of a lower wave are stopped first.
    """

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes | None = None
    may_start: Callable[[], bool] = _always
    wave: int = 0


class Child:
    """A process that is kept running. Use it from one thread only: the parent-death signal belongs to the thread."""

    def __init__(self, spec: ChildSpec, log_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.spec = spec
        self.log = log_dir / f"{spec.name}.log"
        self.restarts = -1
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._quick_deaths = 0
        self._not_before = 0.0

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process else None

    def tend(self) -> bool:
        """Start it when it is due, notice its death; True when it was started now.

        Raises:
            StackFailed: after five quick deaths in a row, with the end of its log; or at once, with its reason, when
                it is of no use to start it again.
        """
        if self._process is not None:
            status = self._process.poll()
            if status is None:
                return False
            self._died(status)
        due = self._clock() >= self._not_before and self.spec.may_start()
        if due:
            self._start()
        return due

    def _start(self) -> None:
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        launcher = python("workers.sandbox.parent_death", "--parent", str(os.getpid()), "--")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                (*launcher, *self.spec.command),
                env=dict(self.spec.env),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL if self.spec.stdin is None else subprocess.PIPE,
                start_new_session=True,
            )
        self._started = self._clock()
        self.restarts += 1
        if self._process.stdin is not None and self.spec.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
                stdin.write(self.spec.stdin)

    def _died(self, status: int) -> None:
        self.kill()
        if status == SchemaMismatch.exit_code:
            said = self.tail().splitlines() or [""]
            raise StackFailed(f"{self.spec.name} stops: {said[-1].removeprefix('error: ')}", child=self.spec.name)
        lived = self._clock() - self._started
        self._quick_deaths = self._quick_deaths + 1 if lived < QUICK else 0
        if self._quick_deaths >= MAX_QUICK_DEATHS:
            raise StackFailed(
                f"{self.spec.name} died {MAX_QUICK_DEATHS} times within {QUICK:g} s of its start, at last "
                f"{_describe(status)}; its log {self.log} ends:\n{self.tail()}",
                child=self.spec.name,
            )
        self._not_before = self._clock() + min(LAST_BACKOFF, FIRST_BACKOFF * 2**self._quick_deaths)

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def ended(self) -> bool:
        """True when it does not run."""
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """End it and everything in its session at once."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def tail(self) -> str:
        """The end of its log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - TAIL_BYTES))
                return file.read().decode(errors="replace").strip()
        except OSError:
            return "(no log)"


def _describe(status: int) -> str:
    return f"by signal {-status}" if status < 0 else f"with status {status}"
