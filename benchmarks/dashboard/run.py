"""The whole measurement: fill a database, serve it, open the pages, ask for the routes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.dashboard import measure as measuring
from benchmarks.dashboard.measure import Opened
from benchmarks.dashboard.plan import Sizes
from benchmarks.dashboard.rows import count, fill
from benchmarks.faults.servers import redis
from benchmarks.harness.coordinator import START_SECONDS, Looks, Server, serving
from benchmarks.harness.processes import Tree, environment
from benchmarks.harness.progress import progress_of
from db.engine import create_engine, migrate
from services.embedded.net import get_json
from tunesmith.errors import InvalidInput, MissingDependency, StackFailed
from tunesmith.messages import RECORD
from tunesmith.safe_path import python

YEAR = str(365 * 86400)
"""Seconds for which devices that report nothing count as alive."""


@dataclass(frozen=True)
class Found:
    """What was measured, and with what; ``empty``: seconds of an empty page."""

    empty: float
    pages: list[Opened]
    routes: dict[str, Looks]
    facts: dict[str, str]


def measure(sizes: Sizes, folder: Path, loads: int, looks: int, database_url: str | None = None) -> Found:
    """Measure everything.

    Args:
        sizes: of the database that is made.
        folder: an empty one, for the coordinator's files and SQLite.
        loads: times that each page is opened.
        looks: requests per route.
        database_url: a database without jobs; by default SQLite.

    Raises:
        InvalidInput: the database has jobs.
        MissingDependency: there is no Playwright, or no Chromium.
        MeasurementFailed: a page does not show its data.
        StackFailed: the coordinator or the core worker does not start.
    """
    try:
        from tools.browsing import launched
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "a browser is driven by Playwright; install it with: pip install -e '.[bench]'", extra="bench"
        ) from error
    say = progress_of("dashboard")
    url = database_url or f"sqlite:///{folder}/dashboard.db"
    with launched() as browser:  # first of all, because there may be none
        empty = measuring.empty_page(browser, folder, loads)
        _prepare(url, sizes)
        say("the database is filled")
        with (
            redis(folder) as broker,
            serving(url, folder, dashboard=True, device_timeout=YEAR, broker_url=broker) as server,
            recording(url, broker, folder, server),
        ):
            pages = measuring.open_pages(browser, server, loads, say)
            routes = measuring.ask_routes(server, looks, say)
        facts = {
            "Chromium": browser.version,
            "database": url.partition(":")[0].partition("+")[0],
            "loads": str(loads),
            "looks": str(looks),
        }
    return Found(empty, pages, routes, facts)


@contextmanager
def recording(url: str, broker: str, folder: Path, server: Server) -> Iterator[None]:
    """Run a core worker that has nothing to do: it reports itself, and what it logs.

    Raises:
        StackFailed: it does not.
    """
    env = environment() | {
        "TUNESMITH_DATA_DIR": str(folder),
        "TUNESMITH_DATABASE_URL": url,
        "TUNESMITH_BROKER_URL": broker,
    }
    with Tree(
        python("tunesmith.cli", "worker", "--queues", RECORD), log=folder / "worker.log", folder=folder, env=env
    ) as worker:
        end = time.monotonic() + START_SECONDS
        while not _has_lines(server):
            if worker.poll() is not None or time.monotonic() > end:
                raise StackFailed(f"the core worker does not report itself: {worker.tail()}")
            time.sleep(0.2)
        yield


def _has_lines(server: Server) -> bool:
    names = [each["name"] for each in _items(server, "/v1/workers") if measuring.CORE in each["roles"]]
    return any(_items(server, f"/v1/workers/log?worker={quote(name)}") for name in names)


def _items(server: Server, path: str) -> list[dict[str, Any]]:
    answer = get_json(server.url + path)
    return answer["items"] if answer is not None else []


def _prepare(url: str, sizes: Sizes) -> None:
    migrate(url)
    engine = create_engine(url, foreign_keys=False)
    try:
        if count(engine):
            raise InvalidInput(
                "the database holds jobs: give an empty one with --database-url", field="database_url", value=""
            )
        fill(engine, sizes)
    finally:
        engine.dispose()
