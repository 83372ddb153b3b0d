"""An embedded stack for the length of a ``with`` block: ``tunesmith up`` as a child process."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from tunesmith.errors import StackFailed, from_problem
from tunesmith.safe_path import python

START_TIMEOUT = 120.0
STOP_TIMEOUT = 30.0
Step = Callable[[str], None]


def _quiet(name: str) -> None:
    """Nobody wants to know."""


class EmbeddedStack:
    """Starts every process of the service on this machine and stops them at the end.

    The stack watches a pipe that this process holds, so it ends too when this process is killed.

    Args:
        data_dir: where the database, blobs and logs live; what was learned there earlier is used again.
        port: the coordinator's port; 0 takes a free one.
        env: environment of the stack; this process's when None.
        on_step: called with the name of each process of the stack that is started.
        options: more of ``tunesmith up``.

    Attributes:
        url: the coordinator's URL.
        resumed: jobs that go on where an earlier stack left them.
    """

    url: str
    resumed: list[dict[str, Any]]

    def __init__(
        self,
        data_dir: str | Path = ".tunesmith",
        port: int = 0,
        env: dict[str, str] | None = None,
        on_step: Step = _quiet,
        options: Sequence[str] = (),
    ) -> None:
        self.data_dir = Path(data_dir)
        self._port = port
        self._env = env
        self._on_step, self._options = on_step, tuple(options)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> EmbeddedStack:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        if self._process is None:
            raise StackFailed("the stack was not started")
        return self._process.pid

    def start(self, timeout: float = START_TIMEOUT) -> None:
        """Start, and wait until it serves.

        Raises:
            StackFailed: with the reason, when it does not come up within ``timeout`` seconds.
            MissingDependency: when the server side is not installed.
        """
        self._launch("--with-parent", subprocess.PIPE, timeout)

    def detach(self, on_step: Step = _quiet, timeout: float = START_TIMEOUT) -> dict[str, Any]:
        """Start a stack that outlives this process, and wait until it serves; ``url, pid, data_dir, resumed``.

        Raises:
            StackFailed, MissingDependency: as :meth:`start` does.
        """
        self._on_step = on_step
        found = self._launch("--detached", subprocess.DEVNULL, timeout)
        assert self._process is not None
        self._process.returncode = 0  # nobody here waits for its end
        self._process = None
        return found

    def _launch(self, how: str, stdin: int, timeout: float) -> dict[str, Any]:
        command = [*python("tunesmith.cli", "up", "--json", how), *self._options]
        command += ["--port", str(self._port), "--data-dir", str(self.data_dir)]
        # A session of its own: Ctrl-C reaches this process only, which then stops the stack in order.
        self._process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, text=True, env=self._env, start_new_session=True
        )
        try:
            found = self._await_ready(timeout)
        except BaseException:  # an interrupted start leaves no stack, either
            self.stop()
            raise
        self.url, self.resumed = str(found["url"]), list(found.get("resumed", ()))
        return found

    def _await_ready(self, timeout: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_pump, args=(self._process.stdout, lines), daemon=True).start()
        end = time.monotonic() + timeout
        while True:
            try:
                line = lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise StackFailed(f"the stack was not ready after {timeout:g} s; see {self.data_dir}/logs") from None
            answer = _object(line)
            if "starting" in answer:
                self._on_step(str(answer["starting"]))
            elif "url" in answer and "code" not in answer:
                return answer
            else:
                break
        if "code" in answer:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT)  # it ends by itself, in order
            raise from_problem(answer)
        raise StackFailed(f"the embedded stack ended at once; see {self.data_dir}/logs")

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Stop every process; returns when none is left."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()  # the children carry a parent-death signal
            process.wait()
        finally:
            if process.stdin is not None:
                process.stdin.close()
            if process.stdout is not None:
                process.stdout.close()

    def alive(self) -> bool:
        """True while the supervisor runs."""
        return self._process is not None and self._process.poll() is None


def _pump(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    with contextlib.suppress(ValueError, OSError):  # closed by stop()
        for line in stream:
            lines.put(line)
    lines.put(None)


def _object(line: str | None) -> dict[str, Any]:
    try:
        value = json.loads(line or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
