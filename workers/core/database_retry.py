"""Wait for a database that is away: what a worker has taken is not lost meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError

from db.outages import is_away

Result = TypeVar("Result")
log = structlog.get_logger(__name__)
FIRST_PAUSE, LAST_PAUSE = 0.1, 0.5
"""Seconds between two tries: a connection that is refused costs almost nothing."""


class DatabaseRetry:
    """Tries again until the database is back.

    Args:
        ending: true when the worker is to end: then nothing is waited for.
    """

    def __init__(self, ending: Callable[[], bool] = lambda: False) -> None:
        self._ending = ending

    def wait(self, work: Callable[[], Result], limit: float = float("inf")) -> Result:
        """Do ``work``, and do it again while the database is away, for ``limit`` seconds at most.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is away for longer, or the worker is to end.
        """
        started, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                result = work()
            except SQLAlchemyError as error:
                if not is_away(error) or self._ending() or time.monotonic() - started > limit:
                    raise
                if pause == FIRST_PAUSE:
                    log.warning("the database is away, waiting", error=str(error.__cause__ or error))
                time.sleep(pause)
                pause = min(LAST_PAUSE, 2 * pause)
            else:
                if pause != FIRST_PAUSE:
                    log.info("the database is back", seconds=round(time.monotonic() - started, 1))
                return result
