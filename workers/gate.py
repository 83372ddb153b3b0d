"""Turns away messages that are larger than any honest one before they are parsed: Celery's strategy of the core tasks.

The strategy runs in the worker's main process, which has no database; so what is too large goes on as a short note of
its size, and the task says that it was refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from celery.worker.strategy import default

from tunesmith.measuring.claims import REPORT_BYTES

NOTE = "tunesmith_message_bytes"
"""Key of the note that replaces a message's body."""


def bounded(task: Any, app: Any, consumer: Any, **options: Any) -> Callable[..., Any]:
    """Celery's own strategy, for messages of ``REPORT_BYTES`` at most."""
    handle: Callable[..., Any] = default(task, app, consumer, **options)

    def receive(message: Any, body: Any, *rest: Any, **more: Any) -> Any:
        size = len(message.body)
        if size > REPORT_BYTES:
            note = [[{NOTE: size}], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
            message.body = json.dumps(note).encode()
            message.content_type, message.content_encoding = "application/json", "utf-8"
            message._decoded_cache = None
        return handle(message, body, *rest, **more)

    return receive


def oversized(body: Any) -> int | None:
    """Bytes of the message that a task's body stands for; None: it is the message itself."""
    size = body.get(NOTE) if isinstance(body, dict) and set(body) == {NOTE} else None
    return size if isinstance(size, int) else None
