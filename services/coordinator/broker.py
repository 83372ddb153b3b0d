"""Sends messages to workers by name. A dead broker delays only the messages themselves."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from tunesmith.broker_users import KEY_PREFIX
from tunesmith.core_workers import KEPT_REPORTS, REPORTS, CoreReport, report_key
from tunesmith.messages import CORE_QUEUES, LogLine, Message
from tunesmith.worker_logs import lists

if TYPE_CHECKING:
    import redis
    from celery import Celery

log = logging.getLogger(__name__)
TIMEOUT = 2.0
"""Seconds that connecting or sending may take before the broker counts as away."""


@dataclass(frozen=True)
class Node:
    """A worker of core queues that is there.

    Attributes:
        report: what it said of itself last.
        age: seconds since then.
    """

    report: CoreReport
    age: float = 0.0

    @property
    def name(self) -> str:
        """What the worker is called at the broker."""
        return self.report.name


class Publisher(Protocol):
    """What the dispatcher needs of a broker."""

    def send(self, message: Message, *, queue: str, task_id: str) -> bool:
        """Send; False when the broker is away (the work's deadline brings the message back)."""

    def revoke(self, task_ids: Sequence[str]) -> None:
        """Hint that tasks need not start."""

    def depths(self, queues: Sequence[str]) -> dict[str, int | None]:
        """Waiting messages by queue, None when unknown."""

    def nodes(self, within: float) -> list[Node]:
        """The workers of core queues that reported in so many last seconds, by name."""

    def log(self, name: str) -> list[LogLine] | None:
        """What is kept of a worker's log (:mod:`tunesmith.worker_logs`), newest line first; None when unknown."""

    def ping(self) -> bool:
        """True when the broker answers."""

    def close(self) -> None:
        """Let go of connections."""


class CeleryPublisher:
    """Publishes to Redis through Celery, never importing a worker's code."""

    def __init__(self, url: str) -> None:
        self._url = url

    @cached_property
    def _app(self) -> Celery:
        from celery import Celery  # only once something is sent: it takes a tenth of a second to load

        os.environ["CELERY_LOADER"] = "app"  # Celery's other one imports a celeryconfig.py of the working folder
        app = Celery("tunesmith-coordinator", broker=self._url, set_as_current=False)
        app.conf.update(
            task_serializer="json",
            accept_content=["json"],
            task_ignore_result=True,
            result_backend=None,
            task_create_missing_queues=True,
            broker_connection_timeout=TIMEOUT,
            broker_connection_retry=False,
            broker_connection_max_retries=0,
            task_publish_retry=False,
            broker_pool_limit=4,
            broker_transport_options={
                "global_keyprefix": KEY_PREFIX,
                "socket_timeout": TIMEOUT,
                "socket_connect_timeout": TIMEOUT,
                "max_retries": 0,
                "retry_on_timeout": False,
                "queue_order_strategy": "round_robin",
            },
        )
        return app

    @cached_property
    def _redis(self) -> redis.Redis:
        import redis

        return redis.Redis.from_url(self._url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)

    def send(self, message: Message, *, queue: str, task_id: str) -> bool:
        """Send one message to ``queue``."""
        try:
            self._app.send_task(
                message.task, args=[message.model_dump(mode="json")], queue=queue, task_id=task_id, ignore_result=True
            )
        except _away() as error:
            log.warning("the broker is away, %s waits: %s", task_id, error)
            return False
        return True

    def revoke(self, task_ids: Sequence[str]) -> None:
        """Broadcast a revocation; without a broker nothing happens."""
        if not task_ids:
            return
        try:
            self._app.control.revoke(list(task_ids))
        except _away() as error:
            log.warning("the broker is away, %d revocations are lost: %s", len(task_ids), error)

    def depths(self, queues: Sequence[str]) -> dict[str, int | None]:
        """Lengths of the Redis lists behind the queues."""
        try:
            with self._app.connection_for_read() as connection:
                client = connection.default_channel.client
                with client.pipeline(transaction=False) as asked:
                    for queue in queues:
                        asked.llen(queue)
                    return {queue: int(length) for queue, length in zip(queues, asked.execute(), strict=True)}
        except _away():
            return dict.fromkeys(queues)

    def nodes(self, within: float) -> list[Node]:
        """Read what they told the broker; nobody is asked. Without a broker there are none."""
        try:
            with self._redis.pipeline(transaction=False) as asked:
                asked.time()
                asked.zrevrange(KEY_PREFIX + REPORTS, 0, KEPT_REPORTS - 1, withscores=True)
                (seconds, microseconds), found = asked.execute()
            ages = {name.decode(errors="replace"): seconds + microseconds / 1e6 - at for name, at in found}
            names = sorted(name for name, age in ages.items() if abs(age) <= within)  # as of devices
            texts = self._redis.mget([KEY_PREFIX + report_key(name) for name in names]) if names else []
        except _away() as error:
            log.warning("the broker is away, core workers cannot be seen: %s", error)
            return []
        told = zip(map(_report, texts), names, strict=True)
        return [Node(report, max(0.0, ages[name])) for report, name in told if report is not None]

    def log(self, name: str) -> list[LogLine] | None:
        """Read a log's lists; what is no line is left out."""
        try:
            with self._redis.pipeline(transaction=False) as asked:
                for key, most in lists(name).items():
                    asked.lrange(KEY_PREFIX + key, 0, most - 1)
                texts = [text for found in asked.execute() for text in found]
        except _away() as error:
            log.warning("the broker is away, the log %s cannot be read: %s", name, error)
            return None
        return sorted(filter(None, map(_line, texts)), key=lambda line: line.at, reverse=True)

    def ping(self) -> bool:
        """Ask the broker whether it answers."""
        return self.depths(CORE_QUEUES[:1])[CORE_QUEUES[0]] is not None

    def close(self) -> None:
        """Close pooled connections."""
        if "_app" in self.__dict__:
            self._app.close()
        if "_redis" in self.__dict__:
            self._redis.close()


def _report(text: bytes | str | None) -> CoreReport | None:
    """A worker's report; None where it was forgotten, or cannot be read."""
    try:
        return CoreReport.model_validate_json(text) if text is not None else None
    except ValueError:
        return None


def _line(text: bytes) -> LogLine | None:
    try:
        return LogLine.model_validate_json(text)
    except ValueError:  # another version wrote it otherwise
        return None


def _away() -> tuple[type[Exception], ...]:
    import redis
    from kombu.exceptions import OperationalError

    return OperationalError, OSError, redis.ConnectionError, redis.TimeoutError
