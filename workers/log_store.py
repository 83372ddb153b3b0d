"""Workers' log lines at the broker: lists that are cut to their newest lines, and forgotten after a day."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

import redis

from tunesmith.broker_users import KEY_PREFIX
from tunesmith.worker_logs import KEPT_LOGS, KEPT_SECONDS, NAMES, LogLine, lists, split

log = logging.getLogger("tunesmith.logs")
TIMEOUT_SECONDS: Final = 2.0


class LogStore:
    """Opens its connection with the first lines.

    Args:
        url: the broker's, for a user that serves core queues.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: redis.Redis | None = None

    def add(self, name: str, lines: Sequence[LogLine]) -> bool:
        """Add lines to a log, oldest first; False where the broker does not take them now."""
        if not lines:
            return True
        try:
            self._add(name, lines)
        except (redis.RedisError, OSError) as error:
            log.warning("%d log lines of %s wait for the broker: %s", len(lines), name, error)
            return False
        return True

    def _add(self, name: str, lines: Sequence[LogLine]) -> None:
        if self._client is None:
            self._client = redis.Redis.from_url(
                self._url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
            )
        most = lists(name)
        with self._client.pipeline(transaction=False) as asked:
            for key, added in split(name, lines).items():
                asked.lpush(KEY_PREFIX + key, *(line.model_dump_json() for line in added))
                asked.ltrim(KEY_PREFIX + key, 0, most[key] - 1)
                asked.expire(KEY_PREFIX + key, KEPT_SECONDS)
            asked.zadd(KEY_PREFIX + NAMES, {name: time.time()})
            asked.expire(KEY_PREFIX + NAMES, KEPT_SECONDS)
            asked.zcard(KEY_PREFIX + NAMES)
            logs = int(asked.execute()[-1])
        if logs > KEPT_LOGS:
            oldest: Any = self._client.zpopmin(KEY_PREFIX + NAMES, logs - KEPT_LOGS)
            for old, _ in oldest:
                self._client.delete(*(KEY_PREFIX + key for key in lists(old.decode())))
