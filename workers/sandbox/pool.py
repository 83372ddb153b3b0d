"""A pool of persistent child processes, each hosting one warm object.

A crash or a hang of one request kills and replaces that one process and costs only that request: the next one is
forked from the pool's template, which has made the object already. ``subprocess`` and not ``multiprocessing``: the
children of a Celery worker are daemonic, which forbids the latter.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from workers.sandbox.process import Child, ChildCrashed, ChildError, ChildRaised, ChildTimeout, End
from workers.sandbox.template import Template

__all__ = ["Actor", "ChildCrashed", "ChildError", "ChildRaised", "ChildTimeout", "End", "Pool"]


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
        self._template = Template(actor.factory, actor.arguments, actor.env or {}, actor.start_timeout, actor.memory)
        self._children: list[Child] = [Child(self._template, actor.memory) for _ in range(size)]
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

    def begin(self) -> None:
        """Make the object now, in the background, and not with the first request.

        Call it in a thread that lives as long as the pool, which the parent-death signal of the template requires.
        """
        self._template.begin()

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

    def _serve(self, child: Child) -> None:
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
