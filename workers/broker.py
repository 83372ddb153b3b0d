"""Redis as the workers read it: a message that Tunesmith did not send is logged and dropped, and ends nobody.

kombu parses what it pops within Celery's event loop, where an exception ends the worker. Whatever may be in a list, so
two places are guarded: a popped item that is no message at all, and a message that Celery's handler cannot deal with.

A worker touches the lists of its queues and nothing else that is shared, so that Redis can confine it to them
(:mod:`tunesmith.broker_users`): no tables of bindings, no scripts, no lists of what is not acknowledged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import Empty
from typing import Any, Final

from celery.worker.control import Panel
from kombu.transport import redis

from tunesmith.messages import CORE_QUEUES, EvaluateModel, MeasureBatch, measure_queue
from workers.core.tasks import CORE_TASKS

log = logging.getLogger("tunesmith.broker")
MAX_MESSAGE_BYTES: Final = 64_000_000
"""Encoded length above which a message is dropped unread; Tunesmith's messages have some megabytes at most."""
SHOWN = 200
MAX_NAME = 255
TEXTS = ("content-type", "content-encoding")
MEASURED = measure_queue("")
TIMES = ("eta", "expires")
"""When a task may run: a worker would hold one of the far future for good, unacknowledged."""
NAMES = ("shadow", "root_id", "parent_id", "group", "lang", "origin", "argsrepr", "kwargsrepr")
"""Texts of a message that Celery keeps in its tables of tasks, or prints; nothing else may stand there."""
REPLIES = "reply.celery.pidbox"
"""Celery's exchange for answers to remote control, where nothing is sent."""
TASKS: Final = {queue: {task.message.task for task in CORE_TASKS if task.queue == queue} for queue in CORE_QUEUES}
MEASURING: Final = frozenset({MeasureBatch.task, EvaluateModel.task})


class GuardedChannel(redis.Channel):  # type: ignore[misc]  # kombu has no types
    """A channel that outlives everything it is given, and leaves everything but its queues alone."""

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """Tell only this process where a queue is: the others know it by its name."""
        if self.typeof(exchange).type == "fanout":
            self._fanout_queues[queue] = (exchange, routing_key.replace("#", "*"))

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:
        return [] if exchange == REPLIES else [routing_key]

    def _size(self, queue: str) -> int:
        """Asked whenever a queue is declared, for an answer that nobody reads."""
        return 0

    def _delete(self, queue: str, *args: Any, **values: Any) -> None:
        if queue not in self._fanout_queues:  # Redis has nothing of fanout queues
            super()._delete(queue, *args, **values)

    def maybe_refresh_binding_expiry(self) -> None:
        """Nothing: there are no tables that could expire."""

    def _restore(self, message: Any, leftmost: bool = False) -> None:
        """Put back what was popped and not begun; a measure worker may not, and its work's deadline brings it back."""
        if not message.delivery_info["routing_key"].startswith(MEASURED):
            super()._restore(message, leftmost)

    def _connparams(self, *args: Any, **values: Any) -> dict[str, Any]:
        """Take kombu's parameters without what needs the command CLIENT: the name of the library, notices of
        maintenance."""
        return {**super()._connparams(*args, **values), "lib_name": None, "lib_version": None, "protocol": 2}

    def basic_consume(self, queue: str, no_ack: bool, callback: Callable[[Any], Any], *args: Any, **values: Any) -> Any:
        """Consume; a message that ``callback`` fails at is taken off the queue."""

        def guarded(message: Any) -> Any:
            try:
                return callback(message)
            except (*self.connection_errors, Empty):
                raise
            except Exception as error:  # a message may hold anything, and must not end the worker
                log.error("a message of queue %s was dropped: %s: %s", queue, type(error).__name__, _short(error))
                if not no_ack and not message.acknowledged:
                    message.ack()
                return None

        return super().basic_consume(queue, no_ack, guarded, *args, **values)

    def _brpop_read(self, **options: Any) -> Any:
        return self._outliving(super()._brpop_read, **options)

    def _receive(self) -> Any:
        return self._outliving(super()._receive)

    def _outliving(self, read: Callable[..., Any], **options: Any) -> Any:
        """``read()``, or Empty where the item cannot be parsed: it is off its list by then."""
        try:
            return read(**options)
        except (*self.connection_errors, *self.connection.channel_errors, Empty):
            raise
        except Exception as error:  # the item may be anything that somebody put into Redis
            log.error("something that is no message was dropped: %s: %s", type(error).__name__, _short(error))
            raise Empty from error


class GuardedTransport(redis.Transport):  # type: ignore[misc]
    """kombu's Redis transport with guarded channels."""

    Channel = GuardedChannel

    def _deliver(self, message: Any, queue: str) -> None:
        ours = queue in CORE_QUEUES or queue.startswith(MEASURED)  # the others are Celery's own
        reason = defect(message) or (foreign(message.get("headers") or {}, queue) if ours else "")
        if reason:
            log.error("an item of queue %s was dropped: %s: %s", queue, reason, _short(message))
            return
        if ours:  # not where it says: who may write to one queue would reach another through a worker that puts it back
            message["properties"]["delivery_info"] = {"exchange": "", "routing_key": queue}
        super()._deliver(message, queue)


def defect(item: Any) -> str:
    """Why a parsed item is no message of kombu's; empty when it is one."""
    if not isinstance(item, dict):
        return "it is no object"
    properties, headers = item.get("properties"), item.get("headers")
    if not isinstance(properties, dict) or not isinstance(properties.get("delivery_tag"), str):
        return "it has no properties with a delivery tag"
    if not isinstance(properties.get("delivery_info"), dict):
        return "it has no delivery information"
    if headers is not None and not isinstance(headers, dict):
        return "its headers are no object"
    if headers and headers.get("compression"):
        return "it is compressed, and may unfold to any size"
    if not isinstance(item.get("body", ""), str) or not all(isinstance(item.get(key, ""), str) for key in TEXTS):
        return "its body or its content type is no text"
    if len(item.get("body", "")) > MAX_MESSAGE_BYTES:
        return f"it is longer than {MAX_MESSAGE_BYTES} bytes"
    return ""


def foreign(headers: dict[str, Any], queue: str) -> str:
    """Why the headers are none that Celery sends with a task of ``queue``; empty when they are.

    Celery reserves a place in the pool before it looks at these, and a message that breaks it there keeps the place.
    """
    if not all(isinstance(headers.get(key), str) and len(headers[key]) <= MAX_NAME for key in ("task", "id")):
        return "its headers name no task"
    strange = next((key for key in NAMES if not isinstance(headers.get(key), str | None)), None)
    if strange is not None:
        return f"its {strange} is no text"
    if headers["task"] not in TASKS.get(queue, MEASURING):
        return "its task belongs to another queue"
    if not isinstance(headers.get("retries", 0), int):
        return "its headers count no retries"
    limits = headers.get("timelimit") or [None, None]
    numbers = isinstance(limits, list) and all(each is None or isinstance(each, int | float) for each in limits)
    if not numbers or len(limits) != 2:
        return "its time limits are no pair of numbers"
    return next((f"it has a time, {key}, which none of ours has" for key in TIMES if headers.get(key) is not None), "")


def restrict_remote_control(panel: type[Panel] = Panel) -> None:
    """Keep only ``revoke`` without its kill from what Celery lets anybody at the broker ask of a worker."""
    revoke = panel.data["revoke"]

    def hint(state: Any, task_id: Any, **_: Any) -> Any:
        ids = [task_id] if isinstance(task_id, str) else [one for one in task_id if isinstance(one, str)]
        return revoke(state, ids, terminate=False)

    panel.data.clear()
    panel.data["revoke"] = hint


def _short(value: object) -> str:
    return repr(value)[:SHOWN]
