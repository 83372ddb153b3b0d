"""A pool of persistent child processes, each hosting one warm object.

A crash or a hang of one request kills and replaces that one process and costs only that request. ``subprocess``
and not ``multiprocessing``: the children of a Celery worker are daemonic, which forbids the latter.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from workers.sandbox import limits
from workers.sandbox.frames import Channel, Closed, Expired


@dataclass(frozen=True)
class End:
    """How a process ended: exit code, or a signal as a negative one; bytes in memory at most, bytes allowed."""

    code: int
    peak: int
    limit: int


class ChildError(Exception):
    """Base of what can go wrong with a request."""


class ChildCrashed(ChildError):
    """The process died while it worked on the request.

    Attributes:
        signal: the signal that ended it, 0 when it ended by itself.
    """

    def __init__(self, end: End) -> None:
        self.signal = max(0, -end.code)
        super().__init__(f"the process {limits.epitaph(end.code, end.peak, end.limit)}")


class ChildTimeout(ChildError):
    """The request took longer than its timeout; its process was killed."""


class ChildRaised(ChildError):
    """The call raised an ordinary exception; the process lives on.

    Attributes:
        kind: the exception's qualified name.
        detail: its text.
        trace: the last frames of the traceback.
    """

    def __init__(self, kind: str, detail: str, trace: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail, self.trace = kind, detail, trace


@dataclass(frozen=True)
class Actor:
    """What a child hosts: ``module:Class``, called with ``arguments`` in an environment with ``env`` added.

    Attributes:
        memory: bytes of data that a child may use (``workers.sandbox.limits.restrict``); 0: as many as there are.
    """

    factory: str
    arguments: tuple[Any, ...] = ()
    env: Mapping[str, str] | None = None
    start_timeout: float = 60.0
    memory: int = 0


@dataclass
class _Request:
    method: str
    arguments: tuple[Any, ...]
    timeout: float
    future: Future[Any]


class Pool:
    """Processes that answer requests in turn; a free process takes the next request.

    Args:
        actor: what each process hosts; a process is started by its first request, or by :meth:`warm`.
        size: number of processes.

    Each process has a thread here that starts, feeds, watches and ends it: that thread lives as long as the
    pool, which the parent-death signal of its child requires. Make the pool in the process that uses it.
    """

    def __init__(self, actor: Actor, size: int) -> None:
        self._actor = actor
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._children: list[_Child] = [_Child(actor) for _ in range(size)]
        self._threads = [
            threading.Thread(target=self._serve, args=(child,), name=f"{actor.factory}-{i}", daemon=True)
            for i, child in enumerate(self._children)
        ]
        self._closed = False
        for thread in self._threads:
            thread.start()

    @property
    def size(self) -> int:
        """Number of processes."""
        return len(self._threads)

    @property
    def pids(self) -> list[int]:
        """Process ids of the children alive."""
        return [pid for child in self._children if (pid := child.pid) is not None]

    def submit(self, method: str, *arguments: Any, timeout: float) -> Future[Any]:
        """Call ``method`` of some child's object; ``timeout`` seconds count from when the child begins.

        The future raises ``ChildCrashed``, ``ChildTimeout`` or ``ChildRaised``. Cancelling it works until it runs.
        """
        if self._closed:
            raise RuntimeError("the pool is closed")
        future: Future[Any] = Future()
        self._requests.put(_Request(method, arguments, timeout, future))
        return future

    def call(self, method: str, *arguments: Any, timeout: float) -> Any:
        """:meth:`submit` and wait."""
        return self.submit(method, *arguments, timeout=timeout).result()

    def kill(self) -> None:
        """Kill what runs now; the requests in work fail with ``ChildCrashed``, queued ones go on in new processes."""
        for child in self._children:
            child.kill()

    def close(self) -> None:
        """Fail what is queued, kill the children and wait for the threads."""
        self._closed = True
        while True:
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                break
            if request is not None:
                request.future.cancel()
        for _ in self._threads:
            self._requests.put(None)
        self.kill()
        for thread in self._threads:
            thread.join(10.0)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, child: _Child) -> None:
        try:
            while (request := self._requests.get()) is not None:
                if not request.future.set_running_or_notify_cancel():
                    continue
                try:
                    request.future.set_result(child.call(request.method, request.arguments, request.timeout))
                except Exception as error:  # whatever it is, it belongs to whoever asked
                    request.future.set_exception(error)
        finally:
            child.stop()


class _Child:
    """One process and its pipes, driven by one thread (``kill`` and ``pid`` by any)."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._guard = threading.Lock()

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def call(self, method: str, arguments: tuple[Any, ...], timeout: float) -> Any:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._start()
        return self._exchange((method, arguments), timeout)

    def kill(self) -> None:
        with self._guard:
            if self._process is not None and self._process.returncode is None:
                # The child leads a session of its own: its compilers and linkers go with it.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def stop(self) -> End:
        """Kill and reap the process, close the pipes."""
        self.kill()
        end = End(0, 0, self._actor.memory)
        if self._process is not None:
            with self._guard:
                end = self._reap(self._process)
                self._process = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        return end

    def _reap(self, process: subprocess.Popen[bytes]) -> End:
        if process.returncode is not None:
            return End(process.returncode, 0, self._actor.memory)
        # Not ``process.wait``: it does not tell how much memory the process used.
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except ChildProcessError:  # somebody else collected it
            return End(process.wait(), 0, self._actor.memory)
        process.returncode = os.waitstatus_to_exitcode(status)
        return End(process.returncode, usage.ru_maxrss * 1024, self._actor.memory)

    def _start(self) -> None:
        child_read, write = os.pipe()
        read, child_write = os.pipe()
        numbers = (child_read, child_write, os.getpid(), self._actor.memory)
        command = [sys.executable, "-m", "workers.sandbox.child", *map(str, numbers)]
        try:
            process = subprocess.Popen(
                command,
                pass_fds=(child_read, child_write),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **(self._actor.env or {})},
            )
        finally:
            os.close(child_read)
            os.close(child_write)
            self._channel = Channel(read, write)
        with self._guard:
            self._process = process
        try:
            self._exchange((self._actor.factory, self._actor.arguments), self._actor.start_timeout)
        except ChildRaised:
            self.stop()
            raise

    def _exchange(self, message: Any, timeout: float) -> Any:
        assert self._channel is not None
        assert self._process is not None
        deadline = time.monotonic() + timeout
        try:
            self._channel.send(message)
            reply = self._channel.receive(deadline)
        except Closed:
            raise ChildCrashed(self.stop()) from None
        except Expired:
            self.stop()
            raise ChildTimeout(f"no answer within {timeout:g} s") from None
        if reply[0] == "error":
            raise ChildRaised(*reply[1:])
        return reply[1]
