"""Times the pages of a large job, as a client on the same machine sees them."""

from __future__ import annotations

import http.client
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.processes import Tree, environment
from benchmarks.pages.rows import LargeJob
from db.engine import create_engine, migrate
from services.embedded.net import free_port, get_json
from tunesmith.errors import StackFailed
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
START_SECONDS = 120.0


@dataclass(frozen=True)
class Page:
    """What a page took.

    Attributes:
        route: with braces in place of the job's id.
        state: of the job.
        first: milliseconds of the first look.
        looks: of the others, shortest first.
        size: bytes of an answer.
    """

    route: str
    state: str
    first: float
    looks: tuple[float, ...]
    size: int

    def quantile(self, share: float) -> float:
        """Milliseconds within which such a share of the looks was answered."""
        return self.looks[min(len(self.looks) - 1, int(share * len(self.looks)))]


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
        port = free_port()
        env = environment() | {
            "TUNESMITH_DATA_DIR": str(folder),
            "TUNESMITH_DATABASE_URL": url,
            "TUNESMITH_PORT": str(port),
            "TUNESMITH_COORDINATOR_URL": f"http://127.0.0.1:{port}",
            "TUNESMITH_DASHBOARD": "0",
            "TUNESMITH_BROKER_URL": f"redis://127.0.0.1:{free_port()}/0",
        }
        log = folder / "coordinator.log"
        with Tree([sys.executable, "-m", "services.coordinator"], log=log, folder=folder, env=env) as tree:
            _wait(tree, f"http://127.0.0.1:{port}/livez")
            found += [_page(port, route, state, job.key, looks) for route in ROUTES]
    return found


def _wait(tree: Tree, url: str) -> None:
    end = time.monotonic() + START_SECONDS
    while get_json(url) is None:
        if tree.poll() is not None or time.monotonic() > end:
            raise StackFailed(f"the coordinator does not come up: {tree.tail()}")
        time.sleep(0.1)


def _page(port: int, route: str, state: str, job: str, looks: int) -> Page:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    took, size = [], 0
    for _ in range(looks + 1):
        began = time.perf_counter()
        connection.request("GET", route.format(job))
        answer = connection.getresponse()
        size = len(answer.read())
        took.append((time.perf_counter() - began) * 1e3)
        if answer.status != 200:
            raise StackFailed(f"{route} was answered with {answer.status}")
        time.sleep(0.01)  # so that the looks meet the planner by chance
    connection.close()
    return Page(route, state, took[0], tuple(sorted(took[1:])), size)
