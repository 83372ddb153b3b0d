from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from rows import add_job, add_model
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, IntegrityError
from threads import at_once

from db.engine import Sessions, create_engine, current_revision, head_revision, migrate, session_factory, transact
from db.models import Base, Device, Job, Model
from db.models.base import utcnow

FLOATS = {sa.Float, sa.FLOAT, sa.Double, sa.DOUBLE}
pytestmark = pytest.mark.parallel


def test_the_models_and_the_migrations_agree(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": _differ})
        assert compare_metadata(context, Base.metadata) == []


def _differ(*types: Any) -> bool | None:
    """Of context, columns and types; None leaves it to Alembic. SQLite knows one width of floats, under many names."""
    context, *_, found, wanted = types
    return False if context.dialect.name == "sqlite" and {type(found), type(wanted)} <= FLOATS else None


def test_a_new_database_is_at_the_head(engine: Engine) -> None:
    assert current_revision(engine) == head_revision()


def test_migrating_down_and_up_again(database_url: str) -> None:
    migrate(database_url)
    engine = create_engine(database_url)
    with engine.begin() as connection:
        Base.metadata.drop_all(connection)
        connection.execute(sa.text("DELETE FROM alembic_version"))
    assert current_revision(engine) is None
    migrate(database_url)
    assert current_revision(engine) == head_revision()
    engine.dispose()


def test_several_processes_migrate_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new' / 'fresh.db'}"
    program = [sys.executable, "-c", "import sys; from db.engine import migrate; migrate(sys.argv[1])", url]
    processes = [subprocess.Popen(program, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        assert [process.communicate(timeout=60)[1] for process in processes] == [""] * 2
        assert [process.returncode for process in processes] == [0] * 2
    finally:
        for process in processes:
            process.kill()
    engine = create_engine(url)
    assert current_revision(engine) == head_revision()
    engine.dispose()


def test_a_new_file_is_opened_by_many_at_once(tmp_path: Path) -> None:
    """The switch to WAL is refused at once while another makes it, whatever the busy timeout."""
    for number in range(50):
        url = f"sqlite:///{tmp_path / f'{number}.db'}"

        def opened(_: int, url: str = url) -> str:
            engine = create_engine(url)
            with engine.begin() as connection:
                mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
            engine.dispose()
            return str(mode)

        assert at_once(8, opened) == ["wal"] * 8


def test_sqlite_is_configured(sqlite_url: str) -> None:
    engine = create_engine(sqlite_url)
    with engine.connect() as connection:
        pragma = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    assert pragma == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 1, "busy_timeout": 30000}
    engine.dispose()


def test_other_databases_are_refused() -> None:
    with pytest.raises(ValueError, match="mysql"):
        create_engine("mysql://somewhere/tunesmith")


def test_foreign_keys_hold(sessions: Sessions) -> None:
    with pytest.raises(IntegrityError), sessions.begin() as session:
        session.add(Job(id="j", model_id="none", target_spec="cpu", search="r", cost_model="none", allocator="r"))


def test_a_read_only_session_sees_but_does_not_write(engine: Engine, sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_model(session)
    readers = session_factory(engine, read_only=True)
    with readers() as session:
        assert session.get_one(Model, "m1").name == "model"
    with pytest.raises(DBAPIError), readers.begin() as session:
        add_model(session, id="m2", sha256="1" * 64)
    with sessions.begin() as session:  # the connection writes again afterwards
        add_model(session, id="m2", sha256="1" * 64)


def test_a_reader_does_not_wait_for_a_writer(engine: Engine, sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_model(session)
    readers = session_factory(engine, read_only=True)
    with sessions.begin() as writer:
        writer.get_one(Model, "m1").name = "renamed"
        writer.flush()
        with readers() as reader:
            assert reader.get_one(Model, "m1").name == "model"


def test_writers_that_read_first_lose_no_update(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_job(session)

    def bump(_: int) -> None:
        for _ in range(20):
            with sessions.begin() as session:
                job = session.get_one(Job, "j1", with_for_update=True)
                job.priority += 1

    assert at_once(4, bump) == [None] * 4
    with sessions() as session:
        assert session.get_one(Job, "j1").priority == 80


def test_a_deadlock_is_tried_again(sessions: Sessions) -> None:
    with sessions.begin() as session:
        for name in ("a", "b"):
            session.add(_device(name))
    barrier = threading.Barrier(2)
    met: list[bool] = [False, False]

    def cross(index: int) -> None:
        order = ("a", "b") if index == 0 else ("b", "a")

        def work(session) -> None:
            for name in order:
                session.get_one(Device, name, with_for_update=True, populate_existing=True).cores += 1
                session.flush()
                if not met[index] and session.get_bind().dialect.name == "postgresql":
                    met[index] = True
                    barrier.wait(timeout=20)

        transact(sessions, work)

    assert at_once(2, cross) == [None] * 2
    with sessions() as session:
        assert {device.cores for device in session.scalars(sa.select(Device))} == {3}


def test_times_are_utc_and_keep_their_microseconds(sessions: Sessions) -> None:
    now = utcnow()
    with sessions.begin() as session:
        session.add(_device("a", seen_at=now))
    with sessions() as session:
        assert session.get_one(Device, "a").seen_at == now
        assert session.get_one(Device, "a").created_at.tzinfo is not None


def test_no_value_in_a_json_column_is_sql_null(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_model(session, error=None)
    with sessions() as session:
        assert session.scalar(sa.select(Model.id).where(Model.error.is_(None))) == "m1"


def test_the_sqlite_of_this_python_can_return_rows() -> None:
    assert sqlite3.sqlite_version_info >= (3, 35)


def _device(name: str, **values) -> Device:
    given = {
        "worker": "w",
        "host": "h",
        "device_classes": [],
        "target": {},
        "cores": 1,
        "environment": {},
        "seen_at": utcnow(),
        **values,
    }
    return Device(name=name, **given)
