"""Garbage in every queue of a real Redis: the workers drop it and do the work that comes after it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import core_flow
import garbage
import pytest
import redis
from redis_process import redis_server
from stack_probe import wait_for
from worker_process import worker_process

from db.models import Device, Event, Model
from db.transactions import enrolment
from services.coordinator.broker import CeleryPublisher
from tunesmith.messages import INGEST, RECORD, SEARCH, TRAIN, VERSION, IngestModel, MeasureBatch, measure_queue
from tunesmith.signing import ensure_key, worker_id
from tunesmith.states import ModelState
from workers.core.context import Context
from workers.core.tasks import CORE_TASKS

pytestmark = pytest.mark.servers
CLASS = "llvm-garbage-1"
PREFIX = "tunesmith:"
TASKS = {task.queue: task.message.task for task in CORE_TASKS} | {measure_queue(CLASS): MeasureBatch.task}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def context(tmp_path: Path, database_url: str) -> Iterator[Context]:
    context = core_flow.core_context(tmp_path, database_url)
    yield context
    context.sessions.kw["bind"].dispose()


@pytest.fixture
def worker(context: Context, tmp_path: Path, database_url: str, broker: str) -> Iterator[subprocess.Popen]:
    key = ensure_key(tmp_path)
    with context.sessions.begin() as session:
        enrolment.enrol(session, worker_id(key), key, "measure", (), "test")
    queues = ",".join((INGEST, SEARCH, TRAIN, RECORD, "measure"))
    command = ("tunesmith.cli", "worker", "--queues", queues)
    settings = {"database_url": database_url, "simulate": "1", "device_classes": CLASS}
    with worker_process(tmp_path, broker, *command, **settings) as process:
        yield process


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_garbage_in_every_queue_ends_no_worker(
    context: Context, worker: subprocess.Popen, broker: str, tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    client, publisher = redis.Redis.from_url(broker), CeleryPublisher(broker)

    def reached(question, what: str) -> None:
        def alive_and_reached() -> bool:
            assert worker.poll() is None, "the worker ended"
            with context.readers() as session:
                return bool(question(session))

        wait_for(alive_and_reached, what, 90.0)

    def import_operator(name: str) -> None:
        core_flow.add_operator(context, name, f"gemm:8x8x{len(name) * 8}:float32")
        assert publisher.send(IngestModel(model_id=name, attempt=1), queue=INGEST, task_id=f"{name}-{time.time_ns()}")
        reached(lambda session: session.get(Model, name).state is ModelState.READY, f"{name} to be imported")

    reached(lambda session: session.query(Device).count(), "the device's report")
    for queue, task in TASKS.items():
        for item in garbage.items(task).values():
            client.lpush(PREFIX + queue, item)
    for text in (b"no JSON", b"[1, 2, 3]", b"{}", b"[" * 100_000):
        client.publish(f"{PREFIX}/0.celery.pidbox", text)
    import_operator("m")
    reached(lambda _: not any(client.llen(PREFIX + queue) for queue in TASKS), "empty queues")
    before = client.hlen(f"{PREFIX}unacked")
    assert before == 0, "garbage waits to be delivered again"
    for reason in (b"it is compressed", b"its task belongs to another queue"):
        assert log.read_bytes().count(reason) >= len(TASKS)
    control = publisher._app.control
    for command in ("shutdown", "pool_shrink", "cancel_consumer", "rate_limit", "time_limit", "pool_restart"):
        control.broadcast(command, arguments={"n": 1, "queue": INGEST})
    control.revoke(["x"], terminate=True, signal="KILL")
    assert control.ping(timeout=1.0) == [], "no worker answers"
    import_operator("mm")

    # A message of another version: the worker says so, leaves its queue to others, and goes on with the other queues.
    core_flow.add_operator(context, "new", "gemm:8x8x40:float32")
    later = garbage.message(IngestModel.task, [{"version": 99, "model_id": "new", "attempt": 1}])
    client.lpush(PREFIX + INGEST, json.dumps(later))
    unread = "message_unreadable"
    reached(lambda session: session.query(Event).filter_by(kind=unread).count(), "the word that it is new")
    with context.readers() as session:
        (event,) = session.query(Event).filter_by(kind=unread)
        assert (event.data["id"], event.data["version"]) == ("new", VERSION)
        assert event.data["reason"].endswith(f"it has version 99, and this worker reads version {VERSION}")
        model = session.get_one(Model, "new")
        assert (model.attempt, model.state) == (2, ModelState.IMPORTING)
        seen = session.query(Device).one().seen_at
    wait_for(lambda: b"queue ingest is left to other workers" in log.read_bytes(), "the queue to be left", 30.0)
    assert publisher.send(IngestModel(model_id="new", attempt=2), queue=INGEST, task_id="another")
    reached(lambda session: session.query(Device).one().seen_at > seen, "a report to be taken in")
    assert client.llen(PREFIX + INGEST) == 1, "the worker takes what it cannot read"
    publisher.close()
    client.close()
