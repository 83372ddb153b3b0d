"""Which schema a database has, and which this code is for; cheap enough to ask before anything heavy is loaded."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from urllib.parse import unquote

from tunesmith.errors import SchemaMismatch

log = logging.getLogger(__name__)
QUERY = "SELECT version_num FROM alembic_version"
CONNECT_SECONDS = 10


def known() -> tuple[str, ...]:
    """The revisions that this code has migrations for, oldest first; it expects the last one."""
    folder = Path(__file__).parent / "migrations" / "versions"
    return tuple(sorted(path.name.partition("_")[0] for path in folder.glob("[0-9]*_*.py")))


def stored(url: str) -> str | None:
    """A database's revision; None when it has no schema yet.

    Raises:
        OSError: the database does not answer.
    """
    scheme, _, rest = url.partition("://")
    if scheme.partition("+")[0] == "sqlite":
        return _of_sqlite(Path(unquote(rest.partition("?")[0].removeprefix("/"))))
    return _of_postgresql(f"postgresql://{rest}")


def check(url: str) -> None:
    """See that a database has the schema that this code expects; the coordinator alone migrates older ones.

    A database that is away is no mismatch: whoever works with it waits for it.

    Raises:
        SchemaMismatch: it has another one, or none.
    """
    try:
        found = stored(url)
    except OSError as error:
        log.warning("the database is away, its schema is not checked: %s", error)
        return
    expected = known()[-1]
    if found is None:
        raise _mismatch("no schema yet", "start the coordinator, which makes it", found)
    check_not_later(found)
    if found != expected:
        raise _mismatch(
            f"the older schema {found}", "start a coordinator of this version, which brings it up to date", found
        )


def check_not_later(found: str | None) -> None:
    """Refuse a schema that this code has never heard of. Raises SchemaMismatch."""
    if found is not None and found not in known():
        raise _mismatch(
            f"the newer schema {found}", "run the newer version, or restore a backup from before the upgrade", found
        )


def _mismatch(what: str, remedy: str, found: str | None) -> SchemaMismatch:
    expected = known()[-1]
    return SchemaMismatch(
        f"the database has {what}, and this version of Tunesmith works with schema {expected}: {remedy}",
        found=found,
        expected=expected,
    )


def _of_sqlite(path: Path) -> str | None:
    if not path.exists():
        return None
    try:
        connection = sqlite3.connect(path, timeout=CONNECT_SECONDS)
        try:
            connection.execute("PRAGMA query_only = ON")
            row = connection.execute(QUERY).fetchone()
        finally:
            connection.close()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise OSError(str(error)) from error
    return str(row[0]) if row else None


def _of_postgresql(url: str) -> str | None:
    import psycopg  # only where it is used: SQLite needs none

    try:
        with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as connection:
            row = connection.execute(QUERY).fetchone()
    except psycopg.errors.UndefinedTable:
        return None
    except psycopg.OperationalError as error:
        raise OSError(str(error).strip()) from error
    return str(row[0]) if row else None
