"""A pool of persistent child processes, each hosting one warm object.

A crash or a hang of one request kills and replaces that one process and costs only that request: the next one is
forked from the pool's template, which has made the object already. ``subprocess`` and not ``multiprocessing``: the
children of a Celery worker are daemonic, which forbids the latter.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from workers.sandbox import limits
from workers.sandbox.frames import Channel, Closed, Expired
from workers.sandbox.template import Ended, Template

START_SECONDS = 30.0
"""What a forked child may take until it answers."""


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

    It is called once, in the process that the children are forked from: the object may load and remember, but it must
    start no thread and open no file or connection before its first request.

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
        actor: what each process hosts; a process is started by its first request.
        size: number of processes.

    Each process has a thread here that starts, feeds, watches and ends it: these live as long as the pool, which the
    parent-death signal of the template requires. Make the pool in the process that uses it.
    """

    def __init__(self, actor: Actor, size: int) -> None:
        self._actor = actor
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._template = Template(
            actor.factory, actor.arguments, actor.env or {}, actor.start_timeout, actor.memory
        )
        self._children: list[_Child] = [_Child(self._template, actor.memory) for _ in range(size)]
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
        self._template.kill()
        for thread in self._threads:
            thread.join(10.0)
        self._template.close()

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

    def __init__(self, template: Template, memory: int) -> None:
        self._template, self._memory = template, memory
        self._pid = 0
        self._alive = -1  # a descriptor of the process, readable when that has ended
        self._channel: Channel | None = None
        self._guard = threading.Lock()

    @property
    def pid(self) -> int | None:
        with self._guard:
            return self._pid if self._running() else None

    def call(self, method: str, arguments: tuple[Any, ...], timeout: float) -> Any:
        if self.pid is None:
            self.stop()
            self._start()
        return self._exchange((method, arguments), timeout)

    def kill(self) -> None:
        with self._guard:
            if self._running():
                # The child leads a session of its own: its compilers and linkers go with it. Before that it has none.
                try:
                    os.killpg(self._pid, signal.SIGKILL)
                except ProcessLookupError:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._pid, signal.SIGKILL)

    def stop(self) -> End:
        """Kill and reap the process, close the pipes."""
        self.kill()
        end = End(0, 0, self._memory)
        if self._pid:
            try:
                code, peak = self._template.reap(self._pid)
            except (Closed, Expired):
                code, peak = -signal.SIGKILL, 0  # it went with its template
            end = End(code, peak, self._memory)
            with self._guard:
                os.close(self._alive)
                self._pid, self._alive = 0, -1
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        return end

    def _running(self) -> bool:
        return self._pid != 0 and not select.select([self._alive], [], [], 0)[0]

    def _start(self) -> None:
        child_read, write = os.pipe()
        read, child_write = os.pipe()
        self._channel = Channel(read, write)
        try:
            pid, failure = self._template.fork(child_read, child_write)
            if failure is not None:
                raise ChildRaised(*failure)
            alive = os.pidfd_open(pid)
            with self._guard:
                self._pid, self._alive = pid, alive
        except Ended as error:
            raise ChildCrashed(End(error.code, 0, 0)) from None
        except Expired:
            raise ChildTimeout(f"not ready within {self._template.start_timeout:g} s") from None
        finally:
            os.close(child_read)
            os.close(child_write)
        self._receive(START_SECONDS)

    def _exchange(self, message: Any, timeout: float) -> Any:
        assert self._channel is not None
        try:
            self._channel.send(message)
        except Closed:
            raise ChildCrashed(self.stop()) from None
        return self._receive(timeout)

    def _receive(self, timeout: float) -> Any:
        assert self._channel is not None
        try:
            reply = self._channel.receive(time.monotonic() + timeout)
        except Closed:
            raise ChildCrashed(self.stop()) from None
        except Expired:
            self.stop()
            raise ChildTimeout(f"no answer within {timeout:g} s") from None
        if reply[0] == "error":
            raise ChildRaised(*reply[1:])
        return reply[1]
