"""From rates and looks to a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.harness.report import Report
from benchmarks.records.measure import CHUNK, Timed

NAME = "records"


def report(found: Mapping[str, Timed], records: int, facts: Mapping[str, str]) -> Report:
    """A line for the rate of each database, and for each question."""
    rows = []
    for name, timed in found.items():
        rate = {"records": records, "median": round(timed.rate), "99 %": ""}
        rows.append({"what": "records stored in a second", "database": name, **rate})
        for question, looks in timed.looks.items():
            last = looks[min(len(looks) - 1, int(0.99 * len(looks)))]
            rows.append(
                {
                    "what": f"{question}, ms",
                    "database": name,
                    "records": timed.among,
                    "median": round(looks[len(looks) // 2], 2),
                    "99 %": round(last, 2),
                }
            )
    summary = (
        f"{records} records are stored as an import stores them: {CHUNK} in a transaction, each looked for among those "
        "measured here first, by the hash of its content. To make the hashes is not counted. Where more are asked "
        "for, the rest are copies that the server made of them. They are asked for as the routes ask, in one process."
    )
    return Report.of(NAME, "Many records", summary, rows, facts)
