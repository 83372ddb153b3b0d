"""A worker that cannot read the messages of a queue takes no more of them; others of its kind may be able to."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

from celery import signals
from celery.worker import state
from celery.worker.request import Request

from tunesmith.errors import SchemaMismatch
from tunesmith.message_reading import UnreadableError

log = logging.getLogger("tunesmith.worker")
WATCHFUL: Final = "workers.refusing:WatchfulRequest"


class WatchfulRequest(Request):  # type: ignore[misc]  # Celery has no types
    """What Celery's main process knows of a task; when the task could not be read, the queue is left to others."""

    consumer: Any = None
    """Consumer of this process, once it consumes."""

    def on_failure(self, exc_info: Any, *args: Any, **values: Any) -> Any:
        """Called in the main process when the task failed."""
        found = super().on_failure(exc_info, *args, **values)
        queue = (self.delivery_info or {}).get("routing_key")
        if isinstance(exc_info.exception, UnreadableError) and queue and WatchfulRequest.consumer is not None:
            log.error("queue %s is left to other workers: %s", queue, exc_info.exception)
            WatchfulRequest.consumer.cancel_task_queue(queue)
        if isinstance(exc_info.exception, SchemaMismatch):
            stop(exc_info.exception)
        return found


def stop(error: SchemaMismatch) -> None:
    """End this worker when Celery looks next; whoever started it sees why."""
    print(f"error: {error.detail}", file=sys.stderr, flush=True)
    state.should_stop = error.exit_code


def watch() -> None:
    """Remember the consumer of this process, which :class:`WatchfulRequest` needs."""

    def ready(sender: Any, **_: Any) -> None:
        WatchfulRequest.consumer = sender

    signals.worker_ready.connect(ready, weak=False, dispatch_uid="tunesmith.refusing")
