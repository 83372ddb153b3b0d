"""Keeps the children running until it is stopped; then leaves nothing behind."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from services.embedded import kernel
from services.embedded.child import Child, ChildSpec
from tunesmith.errors import StackFailed

TICK = 0.25
START_TIMEOUT = 120.0
GRACE = 5.0
"""Seconds between the request to end and the end; work cut short is handed out anew by the next stack."""


class Supervisor:
    """Runs children in the calling thread, which must be the main one (signals, parent death).

    Args:
        specs: in starting order.
        log_dir: one log per child.
        ready: True once the stack serves.
        on_ready: called once.
        watch: file descriptor whose end of file also stops the stack, e.g. standard input.
        on_start: called with the name of each child when it first runs.
        on_stop: called once, before the children are ended.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        log_dir: Path,
        ready: Callable[[], bool],
        on_ready: Callable[[], None],
        watch: int | None = None,
        on_start: Callable[[str], None] = lambda name: None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        log_dir.mkdir(parents=True, exist_ok=True)
        self.children = [Child(spec, log_dir) for spec in specs]
        self._ready, self._on_ready, self._watch = ready, on_ready, watch
        self._on_start, self._on_stop = on_start, on_stop
        self._stopping = False

    def run(self) -> None:
        """Start everything, keep it running, return after SIGINT, SIGTERM or the end of ``watch``.

        Raises:
            StackFailed: when a child keeps dying or the stack does not become ready.
        """
        kernel.adopt_orphans()
        with self._wakeups() as wait:
            try:
                self._loop(wait)
            finally:
                self._on_stop()
                self.stop()

    def _loop(self, wait: Callable[[float], None]) -> None:
        give_up = time.monotonic() + START_TIMEOUT
        is_ready = False
        while not self._stopping:
            for child in self.children:
                if child.tend() and child.restarts == 0:
                    self._on_start(child.spec.name)
            kernel.reap(self._adopted())
            if not is_ready and self._ready():
                is_ready = True
                self._on_ready()
            if not is_ready and time.monotonic() > give_up:
                raise StackFailed(
                    f"the stack was not ready after {START_TIMEOUT:g} s; "
                    + "; ".join(f"{child.spec.name}: {child.tail()[-300:]}" for child in self.children)
                )
            wait(TICK)

    @contextmanager
    def _wakeups(self) -> Iterator[Callable[[float], None]]:
        """A wait that ends early when a signal comes, a child dies or the watched descriptor ends."""
        inner, outer = socket.socketpair()
        inner.setblocking(False)
        outer.setblocking(False)
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, self._stop_soon) for number in signals}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        old = signal.set_wakeup_fd(outer.fileno(), warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        selector.register(inner, selectors.EVENT_READ)
        if self._watch is not None:
            selector.register(self._watch, selectors.EVENT_READ)

        def wait(seconds: float) -> None:
            for key, _ in selector.select(seconds):
                if key.fileobj is inner:
                    inner.recv(4096)
                elif not os.read(key.fd, 4096):
                    self._stopping = True

        try:
            yield wait
        finally:
            signal.set_wakeup_fd(old)
            for number, handler in before.items():
                signal.signal(number, handler)
            selector.close()
            inner.close()
            outer.close()

    def _stop_soon(self, number: int, frame: object) -> None:
        self._stopping = True

    def _adopted(self) -> set[int]:
        return kernel.children() - {child.pid for child in self.children if child.pid}

    def stop(self) -> None:
        """End every child, wave by wave, and whatever they left behind."""
        for wave in sorted({child.spec.wave for child in self.children}):
            members = [child for child in self.children if child.spec.wave == wave]
            for child in members:
                child.terminate()
            end = time.monotonic() + GRACE
            while time.monotonic() < end and not all(child.ended() for child in members):
                time.sleep(0.02)
            for child in members:
                child.kill()
        end = time.monotonic() + GRACE
        while (left := kernel.reap(kernel.children())) and time.monotonic() < end:
            kernel.kill(left)
            time.sleep(0.02)
