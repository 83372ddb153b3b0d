"""Fixtures that every folder of tests may use."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from collector import Collector
from composites import Composites
from databases import PostgresServer, postgres_server, sqlite_template
from effort import THOROUGH
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine
from statements import share_statements

from db.engine import Sessions, create_engine, session_factory

TESTS = Path(__file__).parent
FOLDERS = {"unit": "parallel", "conformance": "parallel", "e2e": "servers"}
"""Phases of all tests of a folder: what may run beside them."""
ORDER = ("e2e", "integration", "conformance", "unit")
"""Of the folders, those with the longest tests first."""
MARK = re.compile(r"^pytestmark = .*pytest\.mark\.(parallel|servers)\b", re.MULTILINE)


def phase(path: Path) -> str:
    """The phase in which a file's tests run. Read without importing the file."""
    found = MARK.search(path.read_text())
    return FOLDERS.get(path.relative_to(TESTS).parts[0]) or (found.group(1) if found else "alone")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare ``--phase``."""
    parser.addoption("--phase", choices=("parallel", "servers", "alone"), help="Collect the files of this phase only.")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the files of other phases unread: importing all of them takes a minute."""
    chosen = config.getoption("--phase")
    if chosen is None or not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    return phase(collection_path) != chosen or None


def pytest_configure(config: pytest.Config) -> None:
    """Have what nearly all tests do over and over cost less, and properties judge no time and draw what they drew."""
    config.pluginmanager.register(Collector())
    config.pluginmanager.register(Composites())
    share_statements()
    settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("steady")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their folders, and run what takes longest first: of tests with servers, the longest files.

    A few workers take the files one by one, and one that takes two minutes must not be the last. What is for the
    thorough mode alone is left out of others.
    """
    if not THOROUGH:
        left = {item for item in items if item.get_closest_marker("thorough")}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    folders = {path: path.relative_to(TESTS).parts[0] for path in {item.path for item in items}}
    sizes = {path: path.stat().st_size for path in folders}
    for item in items:
        mark = FOLDERS.get(folders[item.path])
        if mark:
            item.add_marker(mark)

    servers = config.getoption("--phase") == "servers"

    def place(item: pytest.Item) -> tuple[int, int]:
        folder = folders[item.path]
        return ORDER.index(folder), -sizes[item.path] if servers or folder == ORDER[0] else 0

    items.sort(key=place)


KINDS = ("sqlite", pytest.param("postgresql", marks=pytest.mark.postgres))
"""Of databases."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Which kinds of databases a test with ``database_url`` gets that does not say so itself."""
    given = any("database_url" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "database_url" in metafunc.fixturenames and not given:
        metafunc.parametrize("database_url", kinds_for(metafunc.definition), indirect=True)


def kinds_for(test: pytest.Item) -> list[Any]:
    """Both for tests of the database itself and those with that mark; of others a half each has one of them."""
    about_it = test.path.relative_to(TESTS).parts[:2] == ("integration", "db")
    if THOROUGH or about_it or test.get_closest_marker("both_databases"):
        return list(KINDS)
    return [Random(test.name).choice(KINDS)]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the session."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite file; copy it."""
    return sqlite_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def sqlite_url(tmp_path: Path, migrated_sqlite: Path) -> str:
    """The URL of a migrated SQLite database."""
    path = tmp_path / "tunesmith.db"
    shutil.copyfile(migrated_sqlite, path)
    return f"sqlite:///{path}"


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a migrated database of one kind."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_url")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.create()
    yield url
    server.drop(url)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine on that database."""
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def sessions(engine: Engine) -> Sessions:
    """Sessions that write, on that database."""
    return session_factory(engine)
