"""From pages and routes to two tables. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.dashboard.measure import Opened
from benchmarks.dashboard.plan import Sizes
from benchmarks.harness.coordinator import Looks
from benchmarks.harness.report import Report

PAGES, ROUTES = "dashboard", "dashboard-routes"
PAGE_SECONDS = 1.0
"""In which a page's data is to be shown, half of the times."""
ROUTE_MS = 150.0
"""In which a route is to answer, ninety-nine times of a hundred."""


def named(report: str, database: str) -> str:
    """A report's name: those of other databases than SQLite have sections of their own."""
    return report if database == "sqlite" else f"{report}-{database}"


def late_pages(pages: Sequence[Opened]) -> list[str]:
    """Pages that miss the target."""
    return [page.path for page in pages if page.median >= PAGE_SECONDS]


def late_routes(routes: Mapping[str, Looks]) -> list[str]:
    """Routes that miss the target."""
    return [route for route, looks in routes.items() if looks.quantile(0.99) > ROUTE_MS]


def pages(found: Sequence[Opened], empty: float, sizes: Sizes, facts: Mapping[str, str]) -> Report:
    """A line for each page."""
    rows = [
        {
            "page": page.path,
            "first paint, s": round(statistics.median(page.paint), 2),
            "worst, s": round(max(page.paint), 2),
            "data shown, s": round(page.median, 2),
            "worst data, s": round(max(page.data), 2),
            "server CPU, s": round(page.cpu, 2),
            "kB": round(page.size / 1e3),
        }
        for page in found
    ]
    times = len(found[0].data) if found else 0
    summary = (
        f"{_database(sizes)} Chromium, which runs already, opens each page {times} times with an empty cache, on the "
        "machine of the server; medians and the worst. A page's data is shown once its tables, chart and events are. "
        f"An empty page of the toolkit, NiceGUI, takes {empty:.2f} s. "
        f"{_verdict(late_pages(found), len(found), f'within {PAGE_SECONDS:g} s')}"
    )
    return _report(PAGES, "The dashboard with a million records", summary, rows, facts)


def routes(found: Mapping[str, Looks], sizes: Sizes, facts: Mapping[str, str]) -> Report:
    """A line for each route."""
    rows = [
        {
            "route": route,
            "first, ms": round(looks.first, 1),
            "median, ms": round(looks.quantile(0.5), 1),
            "99 %, ms": round(looks.quantile(0.99), 1),
            "server CPU, ms": round(looks.cpu, 1),
            "kB": round(looks.size / 1e3, 1),
        }
        for route, looks in found.items()
    ]
    summary = (
        "What the dashboard's pages ask for, on the same database, by one client over one connection, after a first "
        "request that is listed apart. "
        f"{_verdict(late_routes(found), len(found), f'99 times of 100 within {ROUTE_MS:g} ms')}"
    )
    return _report(ROUTES, "Routes behind the dashboard", summary, rows, facts)


def _report(name: str, title: str, summary: str, rows: list[dict[str, Any]], facts: Mapping[str, str]) -> Report:
    database = facts.get("database", "sqlite")
    where = "" if database == "sqlite" else ", on PostgreSQL"
    return Report.of(named(name, database), f"{title}{where}", summary, rows, facts)


def _database(sizes: Sizes) -> str:
    return (
        f"A real coordinator serves {sizes.records} records of {sizes.jobs} jobs. One job (`long`) has {sizes.trials} "
        f"trials, one (`wide`) {sizes.tasks} tasks; three small jobs run and wait for a device. "
        "A real core worker, which has nothing to do, reports itself."
    )


def _verdict(late: Sequence[str], of: int, target: str) -> str:
    if not late:
        return f"All {of} are there {target}."
    return f"{of - len(late)} of {of} are there {target}; late: {', '.join(f'`{each}`' for each in late)}."
