"""The coordinator's API for tests: a client over ASGI, a fake fleet behind it, and what every problem must have."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, ClassVar

from anyio.from_thread import start_blocking_portal
from fake_fleet import FakeFleet, Folder, Recorder
from starlette.testclient import TestClient

from db.models import Job
from services.coordinator.app import create_app
from services.coordinator.context import Context
from services.coordinator.scheduling.loop import SchedulingLoop
from tunesmith.states import JobState

GEMM = {"operator": "gemm:256x256x256:float32", "cost_model": "none", "budget": {"trials": 40}}


class Api:
    """A client, and what stands behind it."""

    still_open: ClassVar[set[Api]] = set()
    """What a test that failed has left: its event loop would keep the process."""

    def __init__(self, folder: Folder, **values: Any) -> None:
        self.broker = Recorder()
        self.app = create_app(folder.settings(**values), publisher=self.broker, run_loop=False)
        self.client = TestClient(self.app, raise_server_exceptions=False)
        self.open = ExitStack()
        # One event loop for all requests, as in a server: by itself the client starts a thread with one for each.
        self.client.portal = self.open.enter_context(start_blocking_portal())
        self.context: Context = self.app.state.context
        self.loop = SchedulingLoop(self.context)
        self.fleet = FakeFleet(self.context)
        self.still_open.add(self)

    def work(self, until: Callable[[], bool], looks: int = 200) -> None:
        for _ in range(looks):
            self.loop.step()
            for sent in self.broker.take():
                self.fleet.do(sent.message)
            if until():
                return
        raise AssertionError("not reached")

    def finished_job(self, **values: Any) -> str:
        self.fleet.register_device()
        job_id: str = self.client.post("/v1/jobs", json={**GEMM, **values}).json()["id"]
        self.work(lambda: self.state(job_id) is JobState.SUCCEEDED)
        return job_id

    def state(self, job_id: str) -> JobState:
        """As the database has it: a hundred looks over HTTP take longer than all that the job does."""
        with self.context.reading() as session:
            return session.get_one(Job, job_id).state

    def count(self, kind: type) -> int:
        with self.context.reading() as session:
            return session.query(kind).count()

    def close(self) -> None:
        self.still_open.discard(self)
        self.client.close()
        self.open.close()
        self.context.dispose()


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """The problem object, checked for what every one must have."""
    body: dict[str, Any] = response.json()
    assert (response.status_code, body["code"], body["status"]) == (status, code, status)
    assert response.headers["content-type"] == "application/problem+json"
    assert body["type"] == f"https://tunesmith.dev/problems/{code.replace('_', '-')}"
    assert body["request_id"] == response.headers["x-request-id"]
    assert body["title"]
    assert body["detail"]
    return body
