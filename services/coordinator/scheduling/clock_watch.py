"""Notices that the database's clock was put forward or back, and moves along what is held against it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from sqlalchemy.orm import Session

from db import clock
from db.engine import transact
from db.queries import event_log
from db.transactions import budget_clock, events, locks
from services.coordinator.context import Context
from tunesmith.event_kinds import EventKind
from tunesmith.events import ClockMoved

log = logging.getLogger(__name__)
TOLERANCE_SECONDS = 10.0
"""A clock that is off by less is left alone: no timeout is shorter than that by much."""


@dataclass(frozen=True)
class ClockReading:
    """One look at the database's clock: the time there, and this process's own before and after the question."""

    there: float
    before: float
    after: float
    last_event: int


class ClockWatch:
    """Compares the database's clock with this process's, which is never set.

    A budget of seconds and a worker's deadline are held against the database's clock. Where somebody sets that by an
    hour, a job would end at once, or wait for an hour for a worker that is gone.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last: ClockReading | None = None

    def check(self) -> None:
        """Look; where the clock jumped since the last look, move deadlines, heartbeats and budgets along."""
        last, self._last = self._last, self._look()
        if last is None:
            return
        seconds = jump(last, self._last)
        if abs(seconds) > TOLERANCE_SECONDS:
            since = self._last.after - last.before
            transact(self._context.sessions, lambda session: self._move(session, seconds, since, last.last_event))

    def _look(self) -> ClockReading:
        with self._context.reading() as session:
            before = time.monotonic()
            there = clock.now(session).timestamp()
            return ClockReading(there, before, time.monotonic(), event_log.last_id(session))

    def _move(self, session: Session, seconds: float, since: float, last_event: int) -> None:
        locks.lock_scheduling(session)
        if event_log.any_of(session, EventKind.CLOCK_MOVED, after=last_event):
            return  # another coordinator did
        log.warning("the database's clock moved by %.0f s: deadlines and budgets move along", seconds)
        budget_clock.move_clock(session, seconds, since, clock.now(session))
        events.append(session, ClockMoved(round(seconds, 3)))


def jump(last: ClockReading, now: ClockReading) -> float:
    """Seconds by which the clock there went further than any time that passed between two looks; negative: less far."""
    went = now.there - last.there
    least, most = now.before - last.after, now.after - last.before
    return max(0.0, went - most) + min(0.0, went - least)
