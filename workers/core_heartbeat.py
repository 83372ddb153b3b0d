"""A core worker says every few seconds that it is there (:mod:`tunesmith.core_workers`).

The first process of the pool does it, which passes log lines on, too (:mod:`workers.log_shipping`). The parent has
neither a thread nor a connection.
"""

from __future__ import annotations

import logging
import mmap
import os
import socket
import threading
from typing import Any, Final

import redis
from billiard.process import current_process
from celery import signals

from tunesmith import __version__
from tunesmith.broker_users import KEY_PREFIX
from tunesmith.core_workers import KEPT_REPORTS, KEPT_SECONDS, MAX_PROCESSES, REPORTS, CoreReport, report_key
from workers.settings import Settings

log = logging.getLogger("tunesmith.heartbeat")
INTERVAL_SECONDS: Final = 5.0
REPORTS_PER_TIMEOUT: Final = 3
"""One or two may be late before the worker counts as gone."""
TIMEOUT_SECONDS: Final = 2.0
STOP_SECONDS: Final = 5.0


class PoolProcesses:
    """Ids of a pool's processes. Each notes its own, and all see them, if they were forked after this was made."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 4 * MAX_PROCESSES)

    def note(self, place: int, process: int) -> None:
        """A process has begun; the one before it at its place has ended."""
        if place < MAX_PROCESSES:
            self._memory[4 * place : 4 * place + 4] = process.to_bytes(4, "little")

    def __call__(self) -> tuple[int, ...]:
        """Those that have begun."""
        found = (int.from_bytes(self._memory[at : at + 4], "little") for at in range(0, len(self._memory), 4))
        return tuple(filter(None, found))


class CoreReporting:
    """Follows the life of a core worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._processes = settings, PoolProcesses()
        self._report = CoreReport(name="")
        self._heartbeat: CoreHeartbeat | None = None
        signals.celeryd_init.connect(self.open, weak=False, dispatch_uid="tunesmith.heartbeat.open")
        signals.worker_process_init.connect(self.begin, weak=False, dispatch_uid="tunesmith.heartbeat.begin")
        signals.worker_process_shutdown.connect(self.end, weak=False, dispatch_uid="tunesmith.heartbeat.end")

    def open(self, sender: Any = "", **_: Any) -> None:
        """In the parent: Celery says what the worker is called."""
        queues = self._settings.core_queues
        self._report = CoreReport(name=str(sender), version=__version__, host=socket.gethostname(), queues=queues)

    def begin(self, **_: Any) -> None:
        """In a process of the pool."""
        place = getattr(current_process(), "index", 0)
        self._processes.note(place, os.getpid())
        if place == 0:
            interval = min(INTERVAL_SECONDS, self._settings.device_timeout / REPORTS_PER_TIMEOUT)
            url = self._settings.broker_url.get_secret_value()
            self._heartbeat = CoreHeartbeat(url, self._report, self._processes, interval)
            self._heartbeat.start()

    def end(self, **_: Any) -> None:
        """In a process of the pool that ends."""
        if self._heartbeat is not None:
            self._heartbeat.stop()


class CoreHeartbeat:
    """A thread that writes reports to the broker.

    Args:
        url: the broker's, for a user that serves core queues.
        report: who the worker is.
        processes: those that the worker has now.
        interval: seconds between two reports.
    """

    def __init__(
        self, url: str, report: CoreReport, processes: PoolProcesses, interval: float = INTERVAL_SECONDS
    ) -> None:
        self._report, self._processes, self._interval = report, processes, interval
        self._client = redis.Redis.from_url(url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS)
        self._told = True
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="core-heartbeat", daemon=True)

    def start(self) -> None:
        """Report at once, then every few seconds."""
        self._thread.start()

    def stop(self) -> None:
        """End, and say that the worker is going."""
        self._stop.set()
        self._thread.join(STOP_SECONDS)
        try:
            with self._client.pipeline(transaction=False) as asked:
                asked.zrem(KEY_PREFIX + REPORTS, self._report.name)
                asked.delete(KEY_PREFIX + report_key(self._report.name))
                asked.execute()
        except (redis.RedisError, OSError) as error:
            log.warning("the broker does not know that this worker ends: %s", error)
        self._client.close()

    def beat(self) -> None:
        """Report now; without a broker, the next report says the same."""
        try:
            self._write(self._report.model_copy(update={"processes": self._processes()}))
        except (redis.RedisError, OSError) as error:
            if self._told:
                log.warning("the broker takes no report of this worker: %s", error)
            self._told = False
        else:
            self._told = True

    def _write(self, report: CoreReport) -> None:
        seconds, microseconds = self._client.time()
        with self._client.pipeline(transaction=False) as asked:
            asked.set(KEY_PREFIX + report_key(report.name), report.model_dump_json(), ex=KEPT_SECONDS)
            asked.zadd(KEY_PREFIX + REPORTS, {report.name: seconds + microseconds / 1e6})
            asked.zremrangebyrank(KEY_PREFIX + REPORTS, 0, -KEPT_REPORTS - 1)
            asked.expire(KEY_PREFIX + REPORTS, KEPT_SECONDS)
            asked.execute()

    def _run(self) -> None:
        while True:
            self.beat()
            if self._stop.wait(self._interval):
                return
