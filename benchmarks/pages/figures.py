"""From looks to a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.harness.report import Report
from benchmarks.pages.measure import Page

NAME = "pages"
WANTED = 100.0
"""Milliseconds in which a page is to be there."""


def pages(found: Mapping[str, Sequence[Page]], tasks: int, rounds: int, facts: Mapping[str, str]) -> Report:
    """A line for each page, state of the job and database."""
    rows = [
        {
            "page": page.route.replace("{}", "{id}"),
            "job": page.state,
            "database": name,
            "first, ms": round(page.looks.first, 1),
            "median, ms": round(page.looks.quantile(0.5), 1),
            "99 %, ms": round(page.looks.quantile(0.99), 1),
            "kB": round(page.looks.size / 1e3, 1),
        }
        for name, measured in found.items()
        for page in measured
    ]
    slow = sum(page.looks.quantile(0.5) > WANTED for measured in found.values() for page in measured)
    summary = (
        f"A real coordinator serves one job with {tasks} tasks and {rounds} finished rounds to one client on the "
        "same "
        "machine. Pages of a finished job are read while the coordinator has nothing else to do. With a running "
        "job, it also plans every one to five seconds in the same process. The first request reads the finished "
        "rounds, later ones only new ones. *Old statistics* are from before the job existed, as PostgreSQL has "
        "them for the first minute. "
        f"Medians above {WANTED:.0f} ms: {slow} of {len(rows)}."
    )
    return Report.of(NAME, "Pages of a large job", summary, rows, facts)
