"""The whole measurement: fill a database, serve it, open the pages, ask for the routes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.dashboard import measure as measuring
from benchmarks.dashboard.measure import Opened
from benchmarks.dashboard.plan import Sizes
from benchmarks.dashboard.rows import count, fill
from benchmarks.harness.coordinator import Looks, serving
from benchmarks.harness.progress import progress_of
from db.engine import create_engine, migrate
from tunesmith.errors import InvalidInput, MissingDependency

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
        with serving(url, folder, dashboard=True, device_timeout=YEAR) as server:
            pages = measuring.open_pages(browser, server, loads, say)
            routes = measuring.ask_routes(server, looks, say)
        facts = {
            "Chromium": browser.version,
            "database": url.partition(":")[0].partition("+")[0],
            "loads": str(loads),
            "looks": str(looks),
        }
    return Found(empty, pages, routes, facts)


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
