"""A full disk, a database that is away or busy: the answers say so, nothing is half made, and it passes."""

from __future__ import annotations

import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from coordinator_process import serving
from redis_process import redis_server

from benchmarks.faults.servers import postgres
from services.coordinator.context import MAX_WRITES
from tunesmith.signing import Signer

pytestmark = pytest.mark.servers
JOB = {"operator": "gemm:64x64x64:float32", "cost_model": "none"}
WITHIN = 60.0
AT_ONCE = 6
"""Requests, each of which waits for the database for a while."""


def until(holds: Callable[[], bool]) -> None:
    """Polls: another process tells nobody when its state changes."""
    end = time.monotonic() + WITHIN
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def retry_later(response: httpx2.Response, *codes: str) -> None:
    assert response.status_code in (503, 507), (response.request.url, response.text)
    assert int(response.headers["retry-after"]) >= 1
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] in codes


def form(size: int) -> dict[str, Any]:
    return {"file": ("net.onnx", b"x" * size)}


def requests(client: httpx2.Client) -> dict[str, httpx2.Response]:
    """The answer of every route of the document, to a request that it would take."""
    bodies: dict[str, Any] = {
        "PUT /v1/cache/{namespace}/{key}": {"json": {"value": "{}"}},
        "POST /v1/jobs/{job_id}/tasks/{task_id}/proposals": {"json": {"candidates": [{"sketch": "x", "knobs": {}}]}},
        "POST /v1/jobs": {"json": JOB},
        "POST /v1/models": {"files": form(100)},
        "POST /v1/records/import": {"files": form(100)},
        "POST /v1/costmodels/train": {"json": {"target": "cpu"}},
        "POST /v1/workers": {"json": {"name": "w", "public_key": Signer.fresh().public_key}},
        "POST /v1/workloads/{workload}/revoke": {"json": {"target": "cpu"}},
    }
    calls: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for path, item in client.get("/openapi.json").json()["paths"].items():
        for method, route in item.items():
            name = f"{method.upper()} {path}"
            given = bodies.get(name, {"json": {}} if method in ("post", "patch") else {})
            asked = [each for each in route.get("parameters", ()) if each.get("required")]
            places = {each["name"]: each["schema"] for each in asked if each["in"] == "path"}
            query = {each["name"]: each["name"] for each in asked if each["in"] == "query"}
            given = {**given, "params": query} if query else given
            filled = {place: 1 if schema.get("type") == "integer" else place for place, schema in places.items()}
            calls[name] = (method.upper(), path.format(**filled), given)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = {name: threads.submit(client.request, *call[:2], **call[2]) for name, call in calls.items()}
        return {name: response.result(WITHIN) for name, response in found.items()}


def dispatched(client: httpx2.Client) -> int:
    """Messages that the scheduling loop has sent for imports."""
    return next(q["messages"] for q in client.get("/v1/queues").json()["items"] if q["name"] == "ingest")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str, Path]]:
    """A server on SQLite with a broker whose writers wait a second: its process, its address and its data."""
    folder = tmp_path_factory.mktemp("small")
    data = folder / "data"
    data.mkdir()
    values = {"dashboard": "false", "imports_per_user": "2", "write_timeout": "1"}
    with redis_server(folder) as broker, serving(data, broker_url=broker, **values) as (process, url):
        yield process.pid, url, data


def test_a_full_disk_is_said_and_passes(small: tuple[int, str, Path]) -> None:
    pid, url, data = small
    with httpx2.Client(base_url=url, timeout=WITHIN) as client:
        job_id = client.post("/v1/jobs", json=JOB).json()["id"]
        until(lambda: client.get("/readyz").status_code == 200 and dispatched(client) == 1)
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, before[1]))
        until(lambda: client.get("/readyz").status_code == 503)
        for size in (100, 3_000_000):
            retry_later(client.post("/v1/models", files=form(size)), "disk_full")
        for method, path in (
            ("POST", "/v1/jobs"),
            ("PATCH", f"/v1/jobs/{job_id}"),
            ("POST", f"/v1/jobs/{job_id}/cancel"),
            ("POST", "/v1/keys"),
        ):
            body = JOB if path == "/v1/jobs" else {"name": "n"} if method == "PATCH" else {}
            retry_later(client.request(method, path, json=body), "disk_full", "unavailable")
        assert [job["state"] for job in client.get("/v1/jobs").json()["items"]] == ["queued"]
        assert len(client.get("/v1/models").json()["items"]) == 1
        assert [path for path in (data / "blobs").rglob("*") if path.is_file()] == []
        assert client.get("/livez").status_code == 200

        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/v1/models", files=form(3_000_000)).status_code == 201
        until(lambda: dispatched(client) == 2)


def test_a_database_that_is_away_is_said_on_every_route_and_passes(tmp_path: Path) -> None:
    with postgres() as server, redis_server(tmp_path) as broker:
        values = {"database_url": server.url(), "broker_url": broker, "dashboard": "false"}
        with serving(tmp_path, **values) as (_, url), httpx2.Client(base_url=url, timeout=WITHIN) as client:
            until(lambda: client.get("/readyz").status_code == 200)
            server.stop()
            answers = requests(client)
            healthy, ready = answers.pop("GET /livez"), answers.pop("GET /readyz")
            assert (healthy.status_code, ready.status_code) == (200, 503)
            assert answers.pop("GET /v1/blobs/{sha}").status_code == 401  # needs no database
            for response in answers.values():
                retry_later(response, "unavailable")
            assert list((tmp_path / "blobs").glob(".*")) == []
            server.start()
            until(lambda: client.get("/readyz").status_code == 200)
            assert client.post("/v1/jobs", json=JOB).status_code == 202
            until(lambda: dispatched(client) == 1)


def test_readers_of_sqlite_wait_for_no_writer(tmp_path: Path) -> None:
    """Another process holds the lock: submissions wait for their turn, more than can wait are told so, and all read."""
    with serving(tmp_path, dashboard="false", write_timeout="60") as (_, url), ThreadPoolExecutor(60) as threads:
        with httpx2.Client(base_url=url, timeout=WITHIN, limits=httpx2.Limits(max_connections=None)) as client:
            lock = sqlite3.connect(tmp_path / "tunesmith.db", isolation_level=None)
            lock.execute("BEGIN IMMEDIATE")
            writes = [threads.submit(client.post, "/v1/jobs", json=JOB) for _ in range(MAX_WRITES + 6)]
            until(lambda: sum(write.done() for write in writes) == 6)
            for _ in range(10):
                paths = ("/v1/jobs", "/v1/queues", "/v1/models", "/metrics")
                reads = [threads.submit(client.get, path) for path in paths]
                assert [read.result(WITHIN).status_code for read in reads] == [200] * 4
            assert sum(write.done() for write in writes) == 6
            for write in writes:
                if write.done():
                    retry_later(write.result(), "unavailable")
            lock.execute("ROLLBACK")
            lock.close()
            assert sorted(write.result(WITHIN).status_code for write in writes) == [202] * MAX_WRITES + [503] * 6


def test_a_writer_that_gets_no_turn_is_told_so(small: tuple[int, str, Path]) -> None:
    _, url, data = small
    with ThreadPoolExecutor(20) as threads, httpx2.Client(base_url=url, timeout=WITHIN) as client:
        before = [job["id"] for job in client.get("/v1/jobs").json()["items"]]
        lock = sqlite3.connect(data / "tunesmith.db", isolation_level=None, timeout=WITHIN)
        lock.execute("BEGIN IMMEDIATE")
        for write in [threads.submit(client.post, "/v1/jobs", json=JOB) for _ in range(20)]:
            retry_later(write.result(WITHIN), "unavailable")
        lock.execute("ROLLBACK")
        lock.close()
        assert [job["id"] for job in client.get("/v1/jobs").json()["items"]] == before
        assert client.post("/v1/jobs", json=JOB).status_code == 202
