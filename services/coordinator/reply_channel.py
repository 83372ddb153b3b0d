"""Redis as the coordinator asks workers who they are: without the scripts that its user may not run.

kombu keeps the table of queues for answers with scripts. Here the table is a set that is forgotten when nobody has
asked for a while.
"""

from __future__ import annotations

from typing import Final

from kombu.transport import redis

TABLE_SECONDS: Final = 600


class ReplyChannel(redis.Channel):  # type: ignore[misc]  # kombu has no types
    """A channel that runs no script."""

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """Say where answers go; who answers looks it up by the routing key, so entries of others do no harm."""
        if self.typeof(exchange).type == "fanout":
            self._fanout_queues[queue] = (exchange, routing_key.replace("#", "*"))
            return
        table = self.keyprefix_queue % (exchange,)
        with self.conn_or_acquire() as client:
            client.sadd(table, self.sep.join([routing_key or "", pattern or "", queue or ""]))
            client.pexpire(table, TABLE_SECONDS * 1000)

    def maybe_refresh_binding_expiry(self) -> None:
        """Nothing: the table is made anew with each question."""


class ReplyTransport(redis.Transport):  # type: ignore[misc]
    """kombu's Redis transport with such channels."""

    Channel = ReplyChannel
