"""Which of a worker's processes passes its log lines on, and how (:mod:`workers.log_lines`).

A core worker's first process of the pool writes them to the broker. A measure worker's only one sends them with its
heartbeats.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from billiard.process import current_process
from celery import signals

from tunesmith.worker_logs import of_node
from workers.log_lines import LineHandler, LogChannel, Scrubber
from workers.log_store import LogStore
from workers.settings import Settings

GATHER_SECONDS: Final = 1.0
"""Lines come in bursts: one call for all of them."""
AWAY_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 60.0
"""A thread without lines sees so often whether its process is about to end."""


class LogShipping:
    """Follows the life of a worker.

    Attributes:
        channel: there once the worker has begun.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self._node = settings, ""
        self._pusher: LogPusher | None = None
        self.channel: LogChannel | None = None
        signals.celeryd_init.connect(self.open, weak=False, dispatch_uid="tunesmith.log.open")
        if settings.core_queues:
            signals.worker_process_init.connect(self.begin, weak=False, dispatch_uid="tunesmith.log.begin")
            signals.worker_process_shutdown.connect(self.end, weak=False, dispatch_uid="tunesmith.log.end")

    def open(self, sender: Any = "", **_: Any) -> None:
        """In the parent, before the first child is forked: all will write to one channel."""
        self._node = str(sender)
        self.channel = LogChannel()
        logging.getLogger().addHandler(LineHandler(self.channel, Scrubber(dict(self._settings).values())))

    def begin(self, **_: Any) -> None:
        """In a process of the pool."""
        name = of_node(self._node)
        if self.channel is not None and name is not None and getattr(current_process(), "index", 0) == 0:
            store = LogStore(self._settings.broker_url.get_secret_value())
            self._pusher = LogPusher(self.channel, store, name)
            self._pusher.start()

    def end(self, **_: Any) -> None:
        """In a process of the pool that ends: its last lines go, too."""
        if self._pusher is not None:
            self._pusher.stop()


class LogPusher:
    """A thread that writes lines to the broker."""

    def __init__(self, channel: LogChannel, store: LogStore, name: str) -> None:
        self._channel, self._store, self._name = channel, store, name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-lines", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and write what is left."""
        self._stop.set()
        self._thread.join(GATHER_SECONDS)
        self.push()

    def push(self) -> bool:
        """Write what waits; what the broker does not take waits on."""
        lines = self._channel.take()
        taken = self._store.add(self._name, lines)
        if not taken:
            self._channel.put_back(lines)
        return taken

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._channel.wait(LOOK_SECONDS):
                self._stop.wait(GATHER_SECONDS)
                if not self.push():
                    self._stop.wait(AWAY_SECONDS)
