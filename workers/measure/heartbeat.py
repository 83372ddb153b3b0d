"""Says every few seconds that this device is there, also while it works."""

from __future__ import annotations

from collections.abc import Callable

from tunesmith.messages import DeviceReport
from workers.measure.reporting import PeriodicThread, Send

INTERVAL_SECONDS = 5.0


class Heartbeat:
    """Heartbeats of a measure worker.

    Args:
        send: publishes a message.
        compose: the report to send now.
        unsent: told of a report that could not be sent.
    """

    def __init__(
        self,
        send: Send,
        compose: Callable[[], DeviceReport],
        unsent: Callable[[DeviceReport], None] = lambda _: None,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self._send, self._compose, self._unsent = send, compose, unsent
        self._timer = PeriodicThread(interval, self.beat, "heartbeat")

    def start(self) -> None:
        """Report at once, then every few seconds."""
        self.beat()
        self._timer.start()

    def stop(self) -> None:
        """Report for the last time that the device is going."""
        self._timer.stop()
        self._send(self._compose().model_copy(update={"stopping": True, "busy": False}))

    def beat(self) -> None:
        """Report now."""
        report = self._compose()
        if not self._send(report):
            self._unsent(report)
