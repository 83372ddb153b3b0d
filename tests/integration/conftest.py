"""Fixtures of tests that drive the REST API or core work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from api_driver import Api
from fake_fleet import Folder

if TYPE_CHECKING:
    from workers.core.context import Context


@pytest.fixture(scope="session", autouse=True)
def nothing_left_open() -> Iterator[None]:
    yield
    for left in list(Api.still_open):
        left.close()


@pytest.fixture
def api(tmp_path: Path, sqlite_url: str) -> Iterator[Api]:
    """A coordinator on SQLite."""
    made = Api(Folder(tmp_path, sqlite_url))
    yield made
    made.close()


@pytest.fixture
def both(tmp_path: Path, database_url: str) -> Iterator[Api]:
    """A coordinator on either kind of database."""
    made = Api(Folder(tmp_path, database_url))
    yield made
    made.close()


@pytest.fixture
def context(tmp_path: Path, database_url: str) -> Iterator[Context]:
    """What core work runs in, on either kind of database."""
    yield from core_on(tmp_path, database_url)


@pytest.fixture
def sqlite_context(tmp_path: Path, sqlite_url: str) -> Iterator[Context]:
    """What core work runs in, on SQLite."""
    yield from core_on(tmp_path, sqlite_url)


def core_on(folder: Path, url: str) -> Iterator[Context]:
    """A context whose connections are closed afterwards."""
    from core_flow import core_context  # loads TVM, which most tests here do without

    made = core_context(folder, url)
    yield made
    made.sessions.kw["bind"].dispose()
