"""The pool's end of its template: the process that made the pool's object and that its children are forked from."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Any

from tunesmith.safe_path import python
from workers.sandbox.box.base import Confinement
from workers.sandbox.child import FORK, REAP
from workers.sandbox.environment import scrubbed
from workers.sandbox.frames import Channel, Closed

ANSWER_SECONDS = 30.0
"""To fork or to collect a child takes milliseconds; a template that does not answer is no more."""


END_SECONDS = 1.0
"""What a template that hung up may take to end, before it is killed and how it ended is lost."""


class Ended(Exception):
    """The template ended by itself.

    Attributes:
        code: exit code, or a signal as a negative one.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"the template ended with {code}")
        self.code = code


class Template:
    """One process at a time, started when it is needed. Any thread may use it, one after the other.

    The parent-death signal belongs to the thread that starts the template. That thread must live as long as the
    template is used.

    Args:
        factory, arguments: what makes the object, and with what.
        env: added to what is left of the environment, see ``environment.scrubbed``.
        start_timeout: seconds that making the object may take.
        memory: bytes of data that a child may use; 0: as many as there are.
    """

    def __init__(
        self, factory: str, arguments: tuple[Any, ...], env: Mapping[str, str], start_timeout: float, memory: int
    ) -> None:
        self._message, self._env = (factory, arguments), env
        self._start_timeout, self._memory = start_timeout, memory
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._channel: Channel | None = None
        self._made = False
        self._lock = threading.Lock()

    @property
    def start_timeout(self) -> float:
        """Seconds that making the object may take."""
        return self._start_timeout

    def begin(self) -> None:
        """Start the process without waiting until its object is made; the first fork does."""
        with self._lock:
            if self._channel is None:
                self._start()

    def fork(
        self, read: int, write: int, confinement: Confinement | None = None
    ) -> tuple[int, tuple[str, str, str] | None]:
        """A child that reads requests from ``read`` and writes replies to ``write``.

        Args:
            confinement: the box that it enters before it answers.

        Returns:
            Its process id; or 0, with the exception that kept the object from being made: type, text, traceback.

        Raises:
            Ended: the template ended before it answered.
            Expired: making the object took too long.
        """
        with self._lock:
            try:
                if self._channel is None:
                    self._start()
                failure = self._await() if not self._made else None
                if failure is not None:
                    self._end()
                    return 0, failure
                assert self._channel is not None
                assert self._link is not None
                self._channel.send((FORK, confinement))
                with _closed_link():
                    socket.send_fds(self._link, [b"."], [read, write])
                return int(self._channel.receive(time.monotonic() + ANSWER_SECONDS)), None
            except Closed as error:
                raise Ended(self._end(END_SECONDS)) from error
            except Exception:  # after any error the channel may be in the middle of a message
                self._end()
                raise

    def reap(self, pid: int) -> tuple[int, int, float]:
        """How a child that was killed, or ended by itself, did end: ``child.reap``.

        Raises:
            Closed: its template is gone, and the child with it.
            Expired: it does not end.
        """
        with self._lock:
            if self._channel is None:
                raise Closed
            try:
                self._channel.send((REAP, pid))
                code, peak, cpu = self._channel.receive(time.monotonic() + ANSWER_SECONDS)
            except Exception:  # the same
                self._end()
                raise
            return code, peak, cpu

    def kill(self) -> None:
        """Kill the process, and with it its children; whoever waits for it learns that."""
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process and collect it."""
        self.kill()
        with self._lock:
            self._end()

    def _start(self) -> None:
        """Start the process."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._link, self._channel = ours, Channel(os.dup(ours.fileno()), os.dup(ours.fileno()))
            numbers = (theirs.fileno(), os.getpid(), self._memory)
            command = python("workers.sandbox.child", *map(str, numbers))
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**scrubbed(os.environ), **self._env},
            )
        self._channel.send(self._message)

    def _await(self) -> tuple[str, str, str] | None:
        """Wait until the object is made; the exception that kept it from that, if there was one."""
        assert self._channel is not None
        reply = self._channel.receive(time.monotonic() + self._start_timeout)
        self._made = reply[0] != "error"
        return None if self._made else reply[1:]

    def _end(self, patience: float = 0.0) -> int:
        """Collect the process, which has ``patience`` seconds to end by itself; its exit code, as ``subprocess``'s."""
        code = 0
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
            self.kill()
            code = self._process.wait()
        if self._channel is not None:
            self._channel.close()
        if self._link is not None:
            self._link.close()
        self._process = self._channel = self._link = None
        self._made = False
        return code


@contextlib.contextmanager
def _closed_link() -> Any:
    """A socket without a reader is a closed one."""
    try:
        yield
    except OSError as error:
        raise Closed from error
