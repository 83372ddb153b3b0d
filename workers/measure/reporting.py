"""Reports while work goes on: results in small batches, and heartbeats in between."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from tunesmith.messages import Message, WireResult

log = logging.getLogger("tunesmith.measure")
Send = Callable[[Message], bool]
"""Publishes a message; False when the broker cannot be reached now."""

RESULTS_AT_ONCE = 8
FLUSH_SECONDS = 1.0
HEARTBEAT_SECONDS = 5.0
FINAL_REPORT_SECONDS = 60.0
"""How long a last report is tried again; after that the coordinator hands the work out anew."""


class PeriodicThread:
    """A context in which ``action`` is called every ``interval`` seconds by a thread of its own."""

    def __init__(self, interval: float, action: Callable[[], object], name: str = "periodic") -> None:
        self._interval, self._action = interval, action
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for an action that is running; harmless when it never began."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(10.0)

    def __enter__(self) -> PeriodicThread:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _loop(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self._action()
            except Exception:
                # A heartbeat that could not be sent must not end those that follow.
                log.exception("the %s thread goes on after an error", self._thread.name)


class Reporter:
    """Collects results and sends them every second or every eight; an empty report is a heartbeat.

    Args:
        send: publishes a message.
        compose: makes the report of some results, whether it is the last, and why the whole failed.
    """

    def __init__(self, send: Send, compose: Callable[[list[WireResult], bool, str], Message]) -> None:
        self._send, self._compose = send, compose
        self._guard = threading.Lock()
        self._pending: list[WireResult] = []
        self._sent_at = time.monotonic()
        self._timer = PeriodicThread(FLUSH_SECONDS, self._tick, "report")

    def __enter__(self) -> Reporter:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.stop()

    def add(self, *results: WireResult) -> None:
        """Queue results."""
        with self._guard:
            self._pending += results
            if len(self._pending) >= RESULTS_AT_ONCE:
                self._flush()

    def finish(self, error: str = "") -> bool:
        """Send what is left as the last report; ``error`` says why the work as a whole failed."""
        self._timer.stop()
        with self._guard:
            return send_final_report(self._send, self._compose(self._pending, True, error))

    def _tick(self) -> None:
        with self._guard:
            if self._pending or time.monotonic() - self._sent_at >= HEARTBEAT_SECONDS:
                self._flush()

    def _flush(self) -> None:
        if self._send(self._compose(self._pending, False, "")):
            self._pending = []
        self._sent_at = time.monotonic()


def send_final_report(send: Send, message: Message) -> bool:
    """Send, and try again for a while when the broker is away."""
    deadline = time.monotonic() + FINAL_REPORT_SECONDS
    while not send(message):
        if time.monotonic() >= deadline:
            log.error("the last report of %s was lost: the broker does not answer", message.task)
            return False
        time.sleep(FLUSH_SECONDS)
    return True
