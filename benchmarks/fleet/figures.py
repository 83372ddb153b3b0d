"""From outcomes to tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.fleet.decisions import JOBS, MOST_ROUNDS
from benchmarks.fleet.simulation import FleetRun
from benchmarks.harness.report import Report
from tunesmith.space.base import Floats

FLEET, DECISIONS = "fleet", "fleet-decisions"
NAMES = (FLEET, DECISIONS)
"""Every report, in the order of the page."""


def fleet(outcomes: Sequence[FleetRun], tasks: int, setup: Mapping[str, str]) -> Report:
    """One line per simulation."""
    rows = []
    for seed, found in enumerate(outcomes):
        shares, fair = found.shares, 1.0 / len(found.shares)
        furthest = max(abs(share - fair) / fair for share in shares.values())
        median, high = (1e3 * float(np.percentile(found.decisions, at)) for at in (50, 99))
        rows.append(
            {
                "seed": seed,
                "rounds": found.rounds,
                "devices busy, %": round(100 * found.utilisation, 2),
                "shares of the users, %": ", ".join(f"{owner} {100 * share:.1f}" for owner, share in shares.items()),
                "furthest from a fair share, %": round(100 * furthest, 2),
                "ms a round, median": round(median, 2),
                "99th percentile": round(high, 2),
            }
        )
    summary = (
        "Devices, searchers and the results of tuning are simulated; the scheduling function is the service's. "
        "Ten jobs, "
        f"{tasks} tasks in all, five of them one user's, three another's and two a third one's, all with more "
        "work than time. The time of a round differs by task and by chance. Shares are of the device seconds "
        "used. The last columns are the wall time of planning per round that it opens, on this machine."
    )
    return Report.of(FLEET, "Many jobs on a fleet", summary, rows, setup)


def decisions(found: Mapping[tuple[str, int], Floats], setup: Mapping[str, str]) -> Report:
    """One line per allocator and size of a job."""
    rows = [
        (name, size, round(1e3 * float(np.median(seconds)), 3), round(1e3 * float(np.percentile(seconds, 99)), 3))
        for (name, size), seconds in found.items()
    ]
    summary = (
        f"One decision among the tasks of a job, which have had up to {MOST_ROUNDS} rounds each: those of one of "
        f"{JOBS} jobs, and all of them in a single one."
    )
    columns = ("allocator", "tasks of the job", "ms a decision, median", "99th percentile")
    return Report(DECISIONS, "What a decision takes", summary, columns, rows, setup)
