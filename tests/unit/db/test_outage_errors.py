"""Which failures mean a full disk and which a database that is away, and what a client is told."""

from __future__ import annotations

import errno
import sqlite3

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from db.engine import is_transient
from db.outages import is_away, is_full


class Postgres(Exception):
    """An error of the driver, with the state that the server gave."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


def of(cause: Exception) -> OperationalError:
    return OperationalError("INSERT", {}, cause)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "full"),
        OSError(errno.EDQUOT, "quota"),
        OSError(errno.EFBIG, "limit"),
        of(sqlite3.OperationalError("database or disk is full")),
        of(Postgres("53100")),
    ],
)
def test_a_full_disk_is_known_by_any_of_its_names(error: Exception) -> None:
    assert is_full(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EACCES, "no"),
        of(sqlite3.OperationalError("database is locked")),
        of(Postgres("53300")),
        of(Postgres("57P01")),
        PoolTimeout(),
        ValueError("disk is full"),
    ],
)
def test_what_is_not_full_may_be_away(error: Exception) -> None:
    assert not is_full(error)
    assert is_away(error) == isinstance(error, OperationalError | PoolTimeout)


def test_a_wait_for_a_connection_is_no_deadlock() -> None:
    assert not is_transient(PoolTimeout())
    assert is_transient(of(Postgres("40P01")))
