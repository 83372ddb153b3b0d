"""How many candidates were measured, by failure, without counting all of them each time."""

from __future__ import annotations

import threading
from collections import Counter

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Record
from tunesmith.types import Origin

UNSETTLED = 5000
"""Newest records that are counted anew: below them no transaction that is still to be committed has an id."""


class TrialCounts:
    """Counts of one process, which threads may share. Records that were deleted since its first look still count."""

    def __init__(self, unsettled: int = UNSETTLED) -> None:
        self._unsettled, self._lock = unsettled, threading.Lock()
        self._settled: Counter[str] = Counter()
        self._through = 0

    def of(self, session: Session) -> dict[str, int]:
        """By failure, ``ok`` for those that ran. The first look goes through an index once, all others through the
        newest records."""
        newest = session.scalar(sa.select(sa.func.max(Record.id))) or 0
        with self._lock:
            edge = newest - self._unsettled
            if edge - self._through > self._unsettled:
                self._settled.update(_count(session, self._through, edge))
                self._through = edge
            settled, through = Counter(self._settled), self._through
        return dict(settled + _count(session, through, newest))


def _count(session: Session, after: int, through: int) -> Counter[str]:
    query = sa.select(Record.failure, sa.func.count()).where(
        Record.id > after, Record.id <= through, Record.origin == Origin.MEASURED.value
    )
    return Counter({failure or "ok": number for failure, number in session.execute(query.group_by(Record.failure))})
