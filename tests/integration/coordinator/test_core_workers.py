"""A real core worker reports itself to a real Redis, and a coordinator lists it without asking it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from fake_fleet import Folder
from redis_process import address, redis_server
from stack_probe import wait_for
from starlette.testclient import TestClient
from worker_process import worker_process

from services.coordinator.app import create_app
from services.coordinator.broker import CeleryPublisher
from tunesmith import __version__, broker_users
from tunesmith.messages import RECORD

pytestmark = pytest.mark.servers
CORE = broker_users.core()
TIMEOUT, WITHIN = 3.0, 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis"), [broker_users.OFF, CORE.line]) as url:
        yield CORE.url(address(url))


@pytest.fixture
def listed(tmp_path: Path, sqlite_url: str, broker: str) -> Callable[[], Any]:
    """The workers of ``GET /v1/workers``, each time of a coordinator that has just begun."""

    def ask() -> Any:
        publisher = CeleryPublisher(broker)
        settings = Folder(tmp_path, sqlite_url).settings(device_timeout=TIMEOUT)
        app = create_app(settings, publisher=publisher, run_loop=False)
        try:
            return TestClient(app).get("/v1/workers").json()["items"]
        finally:
            app.state.context.dispose()

    return ask


@pytest.fixture
def worker(tmp_path: Path, sqlite_url: str, broker: str) -> Iterator[subprocess.Popen]:
    command = ("tunesmith.cli", "worker", "--queues", RECORD)
    settings = {"database_url": sqlite_url, "device_timeout": str(TIMEOUT)}
    with worker_process(tmp_path, broker, *command, **settings) as process:
        yield process


def test_a_worker_is_listed_once_it_reported_and_is_gone_once_it_was_killed(
    worker: subprocess.Popen, listed: Callable[[], Any], broker: str
) -> None:
    with redis.Redis.from_url(broker) as client, client.pubsub() as channel:
        channel.psubscribe(broker_users.CONTROL)
        assert channel.get_message(timeout=10.0)["type"] == "psubscribe"
        (found,) = wait_for(listed, "the worker's report", WITHIN)
        assert channel.get_message(timeout=0.1) is None, "workers were asked"
    assert found["name"].startswith(f"{RECORD}-{worker.pid}@")
    assert (found["roles"], found["queues"], found["alive"]) == (["core"], [RECORD], True)
    assert (found["version"], found["holds"]) == (__version__, 0)
    assert found["seen_at"] is not None
    worker.kill()
    wait_for(lambda: not listed(), "the worker to be gone", WITHIN)
