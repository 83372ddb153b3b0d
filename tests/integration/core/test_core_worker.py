"""A real Celery worker process behind a real Redis: its work on PostgreSQL, the end of its processes on SQLite.

The stacks of the end-to-end tests work on SQLite.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import core_flow
import psutil
import pytest
import sqlalchemy as sa
from process_probe import gone
from redis_process import address, redis_server
from sealed import Sealed
from stack_probe import wait_for
from worker_process import worker_process

from db.models import Batch, CostModelRow, Job, JobTask, Model, Round
from db.transactions import training
from db.transactions.ownership import ticket
from services.coordinator.broker import CeleryPublisher
from tunesmith import broker_users
from tunesmith.messages import (
    CORE_QUEUES,
    INGEST,
    RECORD,
    SEARCH,
    TRAIN,
    BatchReport,
    IngestModel,
    Message,
    PrepareJob,
    ProposeRound,
    TrainCostModel,
)
from tunesmith.states import JobState, ModelState, RoundState, WorkState
from tunesmith.worker_logs import of_node
from workers.core.context import Context

pytestmark = pytest.mark.servers
WITHIN = 90.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    user = broker_users.core()
    with redis_server(tmp_path_factory.mktemp("redis"), [broker_users.OFF, user.line]) as url:
        yield user.url(address(url))


@pytest.fixture
def context(tmp_path: Path, database_url: str) -> Iterator[Context]:
    context = core_flow.core_context(tmp_path, database_url)
    yield context
    context.sessions.kw["bind"].dispose()


@pytest.fixture
def worker(tmp_path: Path, database_url: str, broker: str) -> Iterator[subprocess.Popen]:
    command = (
        "celery",
        "-A",
        "workers.celery_main",
        "worker",
        "-c",
        "1",
        "-l",
        "info",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
    )
    settings = {"database_url": database_url, "queues": ",".join(CORE_QUEUES)}
    with worker_process(tmp_path, broker, *command, **settings) as process:
        yield process


@pytest.fixture
def send(broker: str) -> Iterator[Callable[[Message, str], None]]:
    publisher = CeleryPublisher(broker)

    def send(message: Message, queue: str) -> None:
        assert publisher.send(message, queue=queue, task_id=f"{message.task}-{time.monotonic_ns()}")

    yield send
    publisher.close()


def until(context: Context, worker: subprocess.Popen, reached: Callable[..., bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while True:
        with context.readers() as session:
            if reached(session):
                return
        assert worker.poll() is None, "the worker ended"
        assert time.monotonic() < deadline, "the state was not reached"
        time.sleep(0.05)


@pytest.mark.parametrize("database_url", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
def test_the_core_tasks_in_a_worker(context: Context, worker: subprocess.Popen, send, broker: str) -> None:
    core_flow.add_operator(context)
    core_flow.enrol(context)
    for _ in range(2):  # every message twice: the second one does nothing
        send(IngestModel(model_id="m1", attempt=1), INGEST)
    until(context, worker, lambda s: s.get(Model, "m1").state is ModelState.READY)
    core_flow.add_job(context)
    for _ in range(2):
        send(PrepareJob(job_id="j1", attempt=1), INGEST)
    until(context, worker, lambda s: s.get(Job, "j1").state is JobState.RUNNING)
    for number in (1, 2):
        round_id = core_flow.open_round(context, size=8)
        for _ in range(2):
            send(ProposeRound(round_id=round_id, attempt=1), SEARCH)
        until(context, worker, lambda s, r=round_id: s.get(Round, r).state is RoundState.MEASURING)
        with context.readers() as session:
            batch = session.scalars(sa.select(Batch).where(Batch.round_id == round_id)).one()
        for _ in range(2):
            results = core_flow.results_of(batch)
            report = BatchReport(
                batch_id=batch.id,
                attempt=1,
                ticket=ticket(batch, 1),
                worker="w",
                final=True,
                results=[core_flow.traced(context, batch, result) for result in results],
            )
            send(Sealed(core_flow.WORKER, report), RECORD)
        until(context, worker, lambda s, r=round_id: s.get(Round, r).state is RoundState.DONE)
        with context.readers() as session:
            assert session.scalars(sa.select(JobTask.trials)).one() == 8 * number
    with context.sessions.begin() as session:
        model = training.enqueue(session, session.get_one(Job, "j1"))
    send(TrainCostModel(cost_model_id=model.id, attempt=1), TRAIN)
    until(context, worker, lambda s: s.get(CostModelRow, model.id).state is WorkState.DONE)
    assert_children_share_what_they_load(worker)
    publisher = CeleryPublisher(broker)
    assert_operators_see_it(publisher, broker)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=30) == 0
    assert publisher.nodes(WITHIN) == [], "it did not say that it goes"
    publisher.close()


def assert_operators_see_it(publisher: CeleryPublisher, broker: str) -> None:
    """By the user of Redis that a coordinator has: who it is, idle as it is, and what it logged."""
    (node,) = wait_for(lambda: publisher.nodes(WITHIN), "the worker's report", WITHIN)
    assert (set(node.report.queues), len(node.report.processes)) == (set(CORE_QUEUES), 1)
    name = of_node(node.name)
    assert name is not None
    trained = f"Task {TrainCostModel.task}"
    wait_for(
        lambda: any(trained in line.text for line in publisher.log(name) or []), "the line of the last task", WITHIN
    )
    lines = publisher.log(name)
    assert {line.process for line in lines} > set(node.report.processes), "its parent's lines are there, too"
    assert not any(urlsplit(broker).password in line.text for line in lines)


def assert_children_share_what_they_load(worker: subprocess.Popen) -> None:
    """TVM is loaded before the fork, without PyTorch; a learning library by the child that needs it."""
    (child,) = psutil.Process(worker.pid).children()
    ours, theirs = (Path(f"/proc/{pid}/maps").read_text() for pid in (worker.pid, child.pid))
    assert "libtvm" in ours
    assert "xgboost" not in ours
    assert "xgboost" in theirs
    assert "libtorch" not in theirs


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_work_of_a_killed_process_is_due_again_and_the_children_of_a_killed_worker_end(
    context: Context, worker: subprocess.Popen, send
) -> None:
    core_flow.add_operator(context)
    send(IngestModel(model_id="m1", attempt=1), INGEST)
    until(context, worker, lambda s: s.get(Model, "m1").worker is not None)
    for child in psutil.Process(worker.pid).children():
        child.kill()
    until(context, worker, lambda s: s.get(Model, "m1").attempt == 2)
    with context.readers() as session:
        model = session.get_one(Model, "m1")
        assert (model.state, model.worker, model.dispatched) == (ModelState.IMPORTING, None, 1)
    send(IngestModel(model_id="m1", attempt=2), INGEST)
    until(context, worker, lambda s: s.get(Model, "m1").state is ModelState.READY)
    children = [child.pid for child in psutil.Process(worker.pid).children(recursive=True)]
    assert children
    worker.kill()
    assert all(gone(pid) for pid in children)
