"""The database's clock, against which leases, heartbeats and budgets are held.

Hosts disagree about the time, and workers run on many. PostgreSQL is asked for its own; SQLite has none, and all of its
processes are on one host, whose clock it is then.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from db.models.base import utcnow

Clock = Callable[[Session], dt.datetime]
_INFO = "tunesmith.clock"


def now(session: Session) -> dt.datetime:
    """The time, in UTC, as the database has it; it goes on within a transaction."""
    clock: Clock = session.info.get(_INFO, database_time)
    return clock(session)


def database_time(session: Session) -> dt.datetime:
    """What :func:`now` answers unless sessions were given another clock."""
    if session.get_bind().dialect.name != "postgresql":
        return utcnow()
    found: dt.datetime = session.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return found.astimezone(dt.timezone.utc)


def give(sessions: sessionmaker[Session], clock: Clock) -> None:
    """Have the sessions that ``sessions`` makes from now on go by ``clock``."""
    sessions.configure(info={_INFO: clock})
