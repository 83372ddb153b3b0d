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
from urllib.parse import quote, unquote

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from db.outages import is_away
from db.revision import QUERY, check_not_later, known

BUSY_TIMEOUT = 30.0
"""Seconds that a SQLite writer waits for another."""
CACHE_KIB = 16 * 1024
"""Pages that each SQLite connection keeps; SQLite's own 2 MiB do not hold the tasks of a large job."""
READ_ONLY = "tunesmith_read_only"
CONNECT_OPTIONS = {"connect_timeout": 5, "keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3}
"""Seconds after which PostgreSQL counts as away where nothing answers; the URL's own parameters take precedence."""
_MIGRATION_LOCK = 0x7475_6E65
"""Key of the PostgreSQL advisory lock that lets one process migrate at a time."""
_RETRIED_SQLSTATES = frozenset({"40001", "40P01", "55P03"})  # serialisation failure, deadlock, lock not available

Sessions = sessionmaker[Session]
Result = TypeVar("Result")


def sqlite_url(path: Path) -> str:
    """The URL of an SQLite file, whatever characters its path has."""
    return f"sqlite:///{quote(str(path))}"


def parsed(url: str) -> sa.URL:
    """A database's URL; SQLAlchemy 2.0, the last for Python 3.10, leaves the path of a file quoted."""
    found = sa.make_url(url)
    if found.get_backend_name() != "sqlite" or not found.database or sa.make_url("sqlite:///%20").database == " ":
        return found
    return found.set(database=unquote(found.database))


def create_engine(
    url: str, *, foreign_keys: bool = True, pool_size: int = 20, overflow: int = 10, patience: float = BUSY_TIMEOUT
) -> Engine:
    """An engine for ``sqlite:///…`` or ``postgresql+psycopg://…`` (``postgresql://`` means the same).

    Args:
        url: URL of the database.
        foreign_keys: False only for migrations, which rebuild tables on SQLite.
        pool_size: connections kept.
        overflow: further ones that are opened under load.
        patience: seconds to wait for a connection of the pool and, on SQLite, for another writer.
    """
    address = parsed(url)
    if address.get_backend_name() == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
        given = {name: value for name, value in CONNECT_OPTIONS.items() if name not in address.query}
        return sa.create_engine(
            address,
            pool_size=pool_size,
            max_overflow=overflow,
            pool_timeout=patience,
            pool_pre_ping=True,
            connect_args=given,
        )
    if address.get_backend_name() != "sqlite":
        raise ValueError(f"unsupported database {address.get_backend_name()!r}: use sqlite or postgresql")
    if address.database and address.database != ":memory:":
        Path(address.database).parent.mkdir(parents=True, exist_ok=True)
    pool: dict[str, Any] = {"pool_size": pool_size, "max_overflow": overflow, "pool_timeout": patience}
    on_disk = address.database and address.database != ":memory:"
    engine = sa.create_engine(address, connect_args={"timeout": patience}, **(pool if on_disk else {}))
    _configure_sqlite(engine, foreign_keys, patience)
    return engine


def create_engines(url: str, patience: float) -> tuple[Engine, Engine]:
    """An engine for writers and one for readers, for a process that serves many at once.

    On SQLite there is one writer at a time, whoever it is: those of this process queue for one connection, and readers
    have connections of their own, because they wait for nobody. On PostgreSQL both are the same engine.

    Args:
        url: as of :func:`create_engine`.
        patience: seconds that a writer waits for its turn, and anybody for a connection.
    """
    if sa.make_url(url).get_backend_name() != "sqlite":
        engine = create_engine(url, patience=patience)
        return engine, engine
    return create_engine(url, pool_size=1, overflow=0, patience=patience), create_engine(url, patience=patience)


def _configure_sqlite(engine: Engine, foreign_keys: bool, patience: float) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        read_only = bool(connection.get_execution_options().get(READ_ONLY))
        connection.exec_driver_sql(f"PRAGMA query_only = {'ON' if read_only else 'OFF'}")
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def _use_wal(connection: Any) -> None:
    """Switch to WAL, which the file remembers.

    A new file is switched under an exclusive lock, and there SQLite does not wait for the busy timeout: whoever opens
    the file next to another is refused at once, because it is locked.

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


def is_transient(error: SQLAlchemyError) -> bool:
    """True when the same transaction may succeed on a second try (deadlock, lock timeout)."""
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return state in _RETRIED_SQLSTATES or "database is locked" in str(error.orig)


def transact(
    sessions: Sessions,
    work: Callable[[Session], Result],
    *,
    tries: int = 5,
    repeatable: bool = False,
    patience: float = float("inf"),
) -> Result:
    """Run ``work`` in one transaction; begin again, up to ``tries`` times, when the database says to.

    A connection that breaks is no reason to fail either: the next try opens another, half a second in all. Only when
    it breaks in the commit, whether that took effect is not known.

    Args:
        work: what to do; it must have no effect outside its session.
        repeatable: doing ``work`` twice is as good as once, so a commit of unknown outcome is tried again, too.
        tries: at most.
        patience: seconds after which no further try begins.

    Raises:
        sqlalchemy.exc.DBAPIError: the last try's, for which :func:`db.outages.is_away` may be true.
    """
    end = time.monotonic() + patience
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
            if attempt == tries or time.monotonic() > end or not (broken or is_transient(error)):
                raise
            time.sleep(0.02 * 2**attempt)
    raise AssertionError("unreachable")


def head_revision() -> str:
    """The revision that this code expects."""
    return known()[-1]


def upgrade_connection(connection: Connection, revision: str = "head") -> None:
    """Bring the database to ``revision`` within the connection's transaction, whose foreign keys are off on SQLite."""
    from alembic import command  # here, because most processes migrate nothing, and it takes a third of a second
    from alembic.config import Config

    config = Config()
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def current_revision(engine: Engine) -> str | None:
    """The database's revision, None when it was never migrated."""
    with engine.execution_options(**{READ_ONLY: True}).connect() as connection:
        return _revision_of(connection)


def _revision_of(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.exec_driver_sql(QUERY).scalar()
    return None if found is None else str(found)


def probe(engine: Engine) -> None:
    """Write almost nothing and commit it, to see whether the database takes writes.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: it does not.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":  # a number in the file's header that nobody reads; a page goes to the disk
            connection.exec_driver_sql(f"PRAGMA user_version = {time.time_ns() // 1_000_000 % 2**31}")
        else:  # a transaction with a number of its own leaves a record in the log
            connection.exec_driver_sql("SELECT pg_current_xact_id()")


def migrate(url: str, revision: str = "head") -> None:
    """Bring the database to ``revision``, in one transaction; safe when several processes do it at once.

    Raises:
        SchemaMismatch: the database's is later than any that this code knows.
    """
    engine = create_engine(url, foreign_keys=False)
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            found = _revision_of(connection)
            check_not_later(found)
            if (found, revision) == (head_revision(), "head"):
                return  # without Alembic, which reads every migration first
            upgrade_connection(connection, revision)
            if engine.dialect.name == "sqlite":
                broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
                if broken:
                    raise RuntimeError(f"the migration would leave dangling references: {broken[:5]}")
    finally:
        engine.dispose()
