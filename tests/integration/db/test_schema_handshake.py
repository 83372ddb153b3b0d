"""A process whose database has the schema of another version says so in one sentence, and stops."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from stack_probe import wait_for

from db import revision
from db.engine import create_engine, head_revision, migrate
from services.embedded.child import Child, ChildSpec
from tunesmith.errors import SchemaMismatch, StackFailed

pytestmark = pytest.mark.servers
ROOT = Path(__file__).resolve().parents[3]
LATER = "9999"


def pretend(url: str, found: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :found"), {"found": found})
    engine.dispose()


def test_the_revisions_are_those_of_the_migrations(database_url: str) -> None:
    assert head_revision() == revision.stored(database_url)
    revision.check(database_url)


def test_each_other_schema_is_named_with_its_remedy(database_url: str) -> None:
    pretend(database_url, LATER)
    with pytest.raises(SchemaMismatch, match=r"newer schema 9999.*run the newer version"):
        revision.check(database_url)
    with pytest.raises(SchemaMismatch, match=r"newer schema 9999"):
        migrate(database_url)
    pretend(database_url, "0001")
    with pytest.raises(SchemaMismatch, match=r"older schema 0001.*start a coordinator"):
        revision.check(database_url)


def test_no_schema_and_no_database(tmp_path: Path) -> None:
    for name in ("missing.db", "empty.db"):
        (tmp_path / "empty.db").touch()
        with pytest.raises(SchemaMismatch, match=r"no schema yet.*start the coordinator"):
            revision.check(f"sqlite:///{tmp_path / name}")
    revision.check("postgresql+psycopg://nobody@127.0.0.1:1/nothing")  # away: whoever needs it waits


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "services.coordinator"],
        ["-m", "tunesmith.cli", "worker", "--queues", "record"],
        ["-m", "celery", "-A", "workers.celery_main", "worker", "-c", "1"],
    ],
    ids=["coordinator", "worker", "celery"],
)
def test_a_process_stops_with_one_sentence(tmp_path: Path, command: list[str]) -> None:
    url = f"sqlite:///{tmp_path / 'tunesmith.db'}"
    migrate(url)
    pretend(url, LATER)
    env = {
        **os.environ,
        "TUNESMITH_DATA_DIR": str(tmp_path),
        "TUNESMITH_BROKER_URL": "redis://127.0.0.1:1/0",
        "TUNESMITH_QUEUES": "record",
        "TUNESMITH_PORT": "0",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }
    done = subprocess.run([sys.executable, *command], env=env, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == SchemaMismatch.exit_code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: the database has the newer schema 9999, and this version")


def test_the_supervisor_shows_the_reason_at_once(tmp_path: Path) -> None:
    say = f"echo 'error: the database has another schema' >&2; exit {SchemaMismatch.exit_code}"
    child = Child(ChildSpec("core", ("sh", "-c", say), dict(os.environ)), tmp_path)
    child.tend()
    wait_for(child.ended, "its end", 30.0)
    with pytest.raises(StackFailed, match=r"^core stops: the database has another schema$"):
        child.tend()
    assert child.restarts == 0
