"""Engines, sessions and migrations.

SQLite runs in WAL mode. The driver's own transaction handling is switched off and every transaction is begun by
an explicit statement: ``BEGIN IMMEDIATE`` for writers, because a transaction that reads first and writes later
gets SQLITE_BUSY at once, whatever the busy timeout; plain ``BEGIN`` for readers, which block nobody.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from db.outages import is_away

BUSY_TIMEOUT = 30.0
"""Seconds that a SQLite writer waits for another."""
READ_ONLY = "tunesmith_read_only"
PATIENCE = {"connect_timeout": 5, "keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3}
"""Seconds after which PostgreSQL counts as away where nothing answers; the URL's own parameters take precedence."""
_MIGRATION_LOCK = 0x7475_6E65
"""Key of the PostgreSQL advisory lock that lets one process migrate at a time."""
_RETRIED_SQLSTATES = frozenset({"40001", "40P01", "55P03"})  # serialisation failure, deadlock, lock not available

Sessions = sessionmaker[Session]
Result = TypeVar("Result")


def create_engine(url: str, *, foreign_keys: bool = True, pool_size: int = 20) -> Engine:
    """An engine for ``sqlite:///…`` or ``postgresql+psycopg://…`` (``postgresql://`` means the same).

    Args:
        foreign_keys: False only for migrations, which rebuild tables on SQLite.
        pool_size: connections kept; PostgreSQL may open ten more under load.
    """
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
        given = {name: value for name, value in PATIENCE.items() if name not in parsed.query}
        return sa.create_engine(parsed, pool_size=pool_size, max_overflow=10, pool_pre_ping=True, connect_args=given)
    if parsed.get_backend_name() != "sqlite":
        raise ValueError(f"unsupported database {parsed.get_backend_name()!r}: use sqlite or postgresql")
    if parsed.database and parsed.database != ":memory:":
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(parsed, connect_args={"timeout": BUSY_TIMEOUT})
    _configure_sqlite(engine, foreign_keys)
    return engine


def _configure_sqlite(engine: Engine, foreign_keys: bool) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        read_only = bool(connection.get_execution_options().get(READ_ONLY))
        connection.exec_driver_sql(f"PRAGMA query_only = {'ON' if read_only else 'OFF'}")
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def _use_wal(connection: Any) -> None:
    """Switch to WAL, which the file remembers.

    A new file is switched under an exclusive lock, and there SQLite does not wait for the busy timeout: whoever opens
    the file beside another is told at once that it is locked.

    Raises:
        sqlite3.OperationalError: the file was locked for ``BUSY_TIMEOUT`` seconds, or cannot be written.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def session_factory(engine: Engine, *, read_only: bool = False) -> Sessions:
    """Sessions on ``engine``; objects stay readable after commit.

    A read-only session takes no write lock on SQLite, and the database refuses its writes.
    """
    if read_only:
        engine = engine.execution_options(**{READ_ONLY: True, "postgresql_readonly": True})
    return sessionmaker(engine, expire_on_commit=False)


def is_transient(error: DBAPIError) -> bool:
    """True when the same transaction may succeed on a second try (deadlock, lock timeout)."""
    state = getattr(error.orig, "sqlstate", None)
    return state in _RETRIED_SQLSTATES or "database is locked" in str(error.orig)


def transact(
    sessions: Sessions, work: Callable[[Session], Result], *, tries: int = 5, repeatable: bool = False
) -> Result:
    """Run ``work`` in one transaction; begin again, up to ``tries`` times, when the database says to.

    A connection that breaks is no reason to fail either: the next try opens another, half a second in all. Only when
    it breaks in the commit, whether that took effect is not known.

    Args:
        work: what to do; it must have no effect outside its session.
        repeatable: doing ``work`` twice is as good as once, so a commit of unknown outcome is tried again, too.

    Raises:
        sqlalchemy.exc.DBAPIError: the last try's, for which :func:`db.outages.is_away` may be true.
    """
    for attempt in range(1, tries + 1):
        committing = False
        try:
            with sessions.begin() as session:
                result = work(session)
                session.flush()
                committing = True
            return result
        except DBAPIError as error:
            broken = is_away(error) and (repeatable or not committing)
            if attempt == tries or not (broken or is_transient(error)):
                raise
            time.sleep(0.02 * 2**attempt)
    raise AssertionError("unreachable")


def _alembic_config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def head_revision() -> str:
    """The revision that this code expects."""
    head = ScriptDirectory.from_config(_alembic_config()).get_current_head()
    assert head is not None
    return head


def current_revision(engine: Engine) -> str | None:
    """The database's revision, None when it was never migrated."""
    with engine.execution_options(**{READ_ONLY: True}).connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def migrate(url: str, revision: str = "head") -> None:
    """Bring the database to ``revision``, in one transaction; safe when several processes do it at once."""
    engine = create_engine(url, foreign_keys=False)
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            command.upgrade(_alembic_config(connection), revision)
            if engine.dialect.name == "sqlite":
                broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
                if broken:
                    raise RuntimeError(f"the migration would leave dangling references: {broken[:5]}")
    finally:
        engine.dispose()
