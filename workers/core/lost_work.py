"""Work whose process was lost is tried again at once, and not when its deadline has passed.

Celery's parent notices that a process of its pool has died. What is to be done then takes the database, whose library
that parent does without, so that its later children are forked from a small process with no thread and no
connection: a process of its own does it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import structlog
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery import signals
from pydantic import BaseModel

from workers.core.tasks import CORE_TASKS, LEASED
from workers.settings import Settings

log = structlog.get_logger(__name__)
RECEIVER = "tunesmith.lost"
PROBLEM = "the process that did this was lost"


class Loss(BaseModel):
    """What is passed on.

    Attributes:
        url: the database's URL.
        task: name of the message's task.
        body: the message.
        reason: what Celery says.
    """

    url: str
    max_attempts: int
    task: str
    body: dict[str, Any]
    reason: str


def watch(settings: Settings, start: Callable[[Loss], None] | None = None) -> None:
    """Have this worker's parent report work whose process died or was killed for its time limit.

    Args:
        start: does what is to be done; :func:`report` where it is left out.
    """
    leased = {task.message.task for task in CORE_TASKS if task.message in LEASED}

    def failed(sender: Any = None, exception: Any = None, args: Any = None, **_: Any) -> None:
        if isinstance(exception, WorkerLostError | TimeLimitExceeded) and sender.name in leased and args:
            loss = Loss(
                url=settings.url(),
                max_attempts=settings.max_attempts,
                task=sender.name,
                body=args[0],
                reason=str(exception)[:500],
            )
            (start or report)(loss)

    signals.task_failure.disconnect(dispatch_uid=RECEIVER)  # the last one counts, and Celery keeps the first
    signals.task_failure.connect(failed, weak=False, dispatch_uid=RECEIVER)


def report(loss: Loss) -> None:
    """Start the process that makes the work due again; it ends by itself."""
    log.warning("a process was lost", task=loss.task, reason=loss.reason)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen([sys.executable, "-m", "workers.core.lost_work"], stdin=subprocess.PIPE, env=env)
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(loss.model_dump_json().encode())  # far less than a pipe holds: nobody waits


def give_back(loss: Loss) -> bool:
    """Make the work due again as a further attempt, or end it where it has used all of them.

    Returns:
        False where somebody else has the work, or it is done.
    """
    from db.engine import create_engine, session_factory, transact
    from db.models.work import ACTIVE
    from db.transactions import locks, work
    from tunesmith.errors import TunesmithError
    from workers.core.rows import row_of

    message = next(task.message for task in CORE_TASKS if task.message.task == loss.task).model_validate(loss.body)
    kind, row_id = row_of(message)

    def retry(session: Any) -> bool:
        row: Any = locks.lock_row(session, kind, row_id)
        attempt = getattr(message, "attempt", None)
        if row is None or row.attempt != attempt or row.state not in ACTIVE[kind] or not _ended(row.worker):
            return False
        work.retry_or_fail(session, row, loss.max_attempts, TunesmithError(f"{PROBLEM}: {loss.reason}").problem())
        return True

    engine = create_engine(loss.url)
    try:
        return transact(session_factory(engine), retry)
    finally:
        engine.dispose()


def _ended(worker: str | None) -> bool:
    """True where nobody has claimed the work, or a process of this host that is no more (``context.make_context``)."""
    if worker is None:
        return True
    host, _, rest = worker.rpartition("-")[0].rpartition("-")
    if host != socket.gethostname() or not rest.isdecimal():
        return False
    return not os.path.exists(f"/proc/{rest}")


def main() -> None:
    """Read a loss from standard input and do what is to be done."""
    loss = Loss.model_validate(json.load(sys.stdin))
    repeated = give_back(loss)
    log.info("lost work given back" if repeated else "lost work is somebody else's", task=loss.task)


if __name__ == "__main__":
    main()
