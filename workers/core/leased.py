"""Doing leased work: claim, keep alive, and say what became of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from db.models.work import ACTIVE, Row, Work
from db.transactions import outcomes, work
from db.transactions.locks import lock_row
from tunesmith.errors import IllegalTransition, TunesmithError
from workers.core.context import Context

log = structlog.get_logger(__name__)


class LeaseLost(Exception):
    """The work was cancelled, finished by another attempt, or handed to one: stop, and change nothing."""


class Lease:
    """A claim on a row. Within ``with`` a thread moves its deadline until the block ends.

    Attributes:
        lost: set once a heartbeat found the claim gone.
    """

    def __init__(self, context: Context, kind: type[Work], row_id: str | int, attempt: int, timeout: float) -> None:
        self._context, self.row_id, self.attempt = context, row_id, attempt
        self.kind: Any = kind
        self._timeout, self._ended, self.lost = timeout, threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._record_heartbeat, name=f"lease of {kind.__name__} {row_id}", daemon=True
        )

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def check(self) -> None:
        """Raises LeaseLost when there is no point in going on; call it between pieces of work."""
        if self.lost.is_set():
            raise LeaseLost

    @contextmanager
    def unit(self) -> Iterator[None]:
        """Entered for each small piece of work, and left after it: kernels are timed in between. Raises LeaseLost."""
        self.check()
        with self._context.lease.shared():
            yield

    def hold(self, session: Session) -> Any:
        """The row, locked, within the transaction that finishes the work. Raises LeaseLost."""
        row = lock_row(session, self.kind, self.row_id)
        if row is None or row.attempt != self.attempt or row.state not in ACTIVE[self.kind]:
            raise LeaseLost
        return row

    def _record_heartbeat(self) -> None:
        while not self._ended.wait(self._timeout / 3):
            try:
                with self._context.sessions.begin() as session:
                    alive = work.extend(session, self.kind, self.row_id, self.attempt, self._timeout)
            except SQLAlchemyError as error:
                log.warning("no heartbeat", row=self.row_id, error=str(error))  # the next one may succeed
                continue
            if not alive:
                self.lost.set()
                return


def run_leased(
    context: Context, kind: type[Row], row_id: str | int, attempt: int, timeout: float, task: Callable[[Lease], None]
) -> bool:
    """Claim the row and run ``task``; False when the message was stale or doubled and nothing was done.

    A typed error ends the work with its problem object. Anything else is logged with its traceback and the work is
    tried again, until its attempts are used up.
    """
    logger = log.bind(work=kind.__tablename__, row=row_id, attempt=attempt)

    def claim(session: Session) -> bool:
        return work.claim(session, kind, row_id, attempt, context.worker, timeout) is not None

    if not context.write(claim):
        logger.info("stale or doubled message")
        return False
    lease = Lease(context, kind, row_id, attempt, timeout)

    def repeated() -> None:
        """The work from its beginning, where the database went away in the middle of it."""
        lease.check()
        task(lease)

    try:
        with lease:
            context.patience.wait(repeated)
    except (LeaseLost, IllegalTransition) as error:
        logger.info("work given up by others", error=str(error))
    except TunesmithError as error:
        logger.warning("work failed", code=error.code, error=error.detail)
        _end(context, lease, error.problem(), attempts=0)
    except Exception as error:  # an unforeseen error is tried again up to a limit, then it is the work's
        logger.exception("work broke")
        problem = TunesmithError(f"{type(error).__name__}: {error}"[:1000]).problem()
        _end(context, lease, problem, attempts=context.settings.max_attempts)
    else:
        logger.info("work done")
    return True


def _end(context: Context, lease: Lease, problem: dict[str, Any], attempts: int) -> None:
    def end(session: Session) -> None:
        try:
            row = lease.hold(session)
        except LeaseLost:
            return
        if attempts:
            work.retry_or_fail(session, row, attempts, problem)
        else:
            outcomes.give_up(session, row, problem)

    context.write(end)
