"""Fixtures of tests that drive the REST API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_driver import Api
from fake_fleet import Folder


@pytest.fixture
def api(tmp_path: Path, sqlite_url: str) -> Iterator[Api]:
    """A coordinator on SQLite."""
    made = Api(Folder(tmp_path, sqlite_url))
    yield made
    made.close()


@pytest.fixture
def both(tmp_path: Path, database_url: str) -> Iterator[Api]:
    """A coordinator, once on each kind of database."""
    made = Api(Folder(tmp_path, database_url))
    yield made
    made.close()
