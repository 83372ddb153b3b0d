"""Tell a database that is away from one that refuses."""

from __future__ import annotations

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

_AWAY_CLASSES = ("08", "53", "57P")
"""PostgreSQL: the connection broke; no connection, memory or disk is left; the server stops, starts or dropped us."""
_AWAY_TEXTS = ("database is locked", "disk is full", "disk I/O error", "unable to open database file")
"""SQLite: a writer held the lock for too long, or the disk does not take or give what it should."""


def is_full(error: BaseException) -> bool:
    """True when there is no room left for what was to be written, in a file or in the database."""
    if isinstance(error, DBAPIError):
        if isinstance(error.orig, sqlite3.Error):  # a file-size limit is a failed write to SQLite, not a full disk
            failed = getattr(error.orig, "sqlite_errorname", "") == "SQLITE_IOERR_WRITE"
            return failed or "disk is full" in str(error.orig)
        return getattr(error.orig, "sqlstate", None) == "53100"
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_away(error: BaseException) -> bool:
    """True when the database could not be asked at all: the same transaction may succeed once it is back.

    Whether a commit took effect is not known when the connection broke in it.
    """
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        return isinstance(error, OperationalError) and any(text in str(error.orig) for text in _AWAY_TEXTS)
    state = getattr(error.orig, "sqlstate", None)
    if state is None:  # the driver never got so far as to be answered
        return isinstance(error, OperationalError | InterfaceError)
    return str(state).startswith(_AWAY_CLASSES)
