"""Times the pages of a large job, as a client on the same machine sees them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import coordinator
from benchmarks.harness.coordinator import Looks
from benchmarks.pages.rows import LargeJob
from db.engine import create_engine, migrate
from tunesmith.states import JobState

JOBS = {"over": LargeJob("bench-0", 0, 0, JobState.SUCCEEDED), "running": LargeJob("bench-1", 0, 0, JobState.RUNNING)}
ROUTES = (
    "/v1/jobs/{}",
    "/v1/jobs",
    "/v1/jobs/{}/tasks",
    "/v1/jobs/{}/families",
    "/v1/jobs/{}/curve",
    "/v1/jobs/{}/forecast",
    "/v1/jobs/{}/rounds",
    "/v1/jobs/{}/decisions",
    "/v1/jobs/{}/decisions?sort=-number",
    "/v1/jobs/{}/trials",
    "/v1/jobs/{}/failures",
    "/v1/jobs/{}/events",
    "/metrics",
)


@dataclass(frozen=True)
class Page:
    """What a page took.

    Attributes:
        route: with braces in place of the job's id.
        state: of the job.
        looks: at it.
    """

    route: str
    state: str
    looks: Looks


def look_at(url: str, folder: Path, tasks: int, rounds: int, looks: int, *, analyze: bool = True) -> list[Page]:
    """Fill an empty database, serve it, and look at every page.

    First of a job that is over, while the coordinator has nothing else to do; then of one that runs, beside which it
    plans every one to five seconds.

    Args:
        url: of the database.
        folder: for the coordinator's files.
        tasks: of each job.
        rounds: of each job, finished.
        looks: at each page, after one that does not count.
        analyze: False leaves the database with the statistics that it had before the second job came.

    Raises:
        StackFailed: the coordinator does not start, or answers with an error.
    """
    migrate(url)
    found: list[Page] = []
    for state, job in JOBS.items():
        engine = create_engine(url)
        LargeJob(job.key, tasks, rounds, job.state, job.known).write(engine, analyze=analyze or not found)
        engine.dispose()
        with coordinator.serving(url, folder) as server:
            found += [Page(route, state, coordinator.look_at(server, route.format(job.key), looks)) for route in ROUTES]
    return found
