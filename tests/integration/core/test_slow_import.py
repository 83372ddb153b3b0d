"""An import that takes minutes, of a small file, in a real worker: other users do not wait for it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from core_flow import TARGET
from redis_process import redis_server
from stack_probe import wait_for
from worker_process import worker_process

from db.models import Job, Model
from services.coordinator.app import create_context
from services.coordinator.auth import Caller
from services.coordinator.context import Context
from services.coordinator.requests import JobRequest
from services.coordinator.scheduling.loop import SchedulingLoop
from services.coordinator.settings import Settings
from services.coordinator.usecases.submit import submit
from tunesmith.answers.jobs import BudgetBody
from tunesmith.preparation import for_target
from tunesmith.states import JobState, ModelState

pytestmark = pytest.mark.servers
NODES = 40_000


def chain() -> bytes:
    """A megabyte of additions, one after another: allowed, and minutes of work for an importer."""
    of_x = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Add", [f"v{i}", "v0"], [f"v{i + 1}"]) for i in range(NODES)]
    inputs = [of_x("v0", onnx.TensorProto.FLOAT, [4])]
    outputs = [of_x(f"v{NODES}", onnx.TensorProto.FLOAT, [4])]
    graph = onnx.helper.make_graph(nodes, "chain", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString()


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    with redis_server(tmp_path) as broker:
        context = create_context(Settings(data_dir=tmp_path, broker_url=broker))
        loop = SchedulingLoop(context)
        loop.start()
        yield context
        loop.stop()
        context.publisher.close()
        context.engine.dispose()


@pytest.fixture
def importers(context: Context, tmp_path: Path) -> Iterator[subprocess.Popen]:
    broker = context.settings.broker_url.get_secret_value()
    command = ("tunesmith.cli", "worker", "--queues", "ingest", "--concurrency", "2")
    with worker_process(tmp_path, broker, *command) as process:
        yield process


def test_another_users_job_is_prepared_while_a_slow_import_runs(context: Context, importers: subprocess.Popen) -> None:
    data = chain()
    blob = context.blobs.put_bytes(data)
    with context.sessions.begin() as session:
        for number in range(3):
            session.add(
                Model(
                    id=f"slow{number}",
                    name="chain",
                    source="onnx",
                    sha256=blob,
                    size=len(data),
                    owner="mallory",
                    inputs_key=str(number) and "{}" + " " * number,
                    state=ModelState.IMPORTING,
                    preparation=for_target("llvm", operator=False).key,
                )
            )

    def slow() -> list[Model]:
        with context.reading() as session:
            return [session.get_one(Model, f"slow{number}") for number in range(3)]

    wait_for(lambda: slow()[0].worker, "the slow import to begin", 60.0)
    budget = BudgetBody(trials=8)
    request = JobRequest(operator="gemm:16x16x16:float32", target=TARGET, budget=budget, cost_model="none")
    job_id = submit(context, Caller("bob", frozenset({"user"})), request, None)[0].id

    def running() -> bool:
        assert importers.poll() is None, "the worker ended"
        with context.reading() as session:
            return session.get_one(Job, job_id).state is JobState.RUNNING

    wait_for(running, "the other user's job to be prepared", 90.0)
    rows = slow()
    assert [row.state for row in rows] == [ModelState.IMPORTING] * 3, rows[0].error
    assert rows[0].worker, "the slow import does not run any more"
    assert rows[0].attempt == 1
    assert [row.dispatched for row in rows[1:]] == [0, 0], "a user has more than one import under way"
    with context.reading() as session:
        (mine,) = session.query(Model).filter_by(owner="bob", state=ModelState.READY)
    assert mine.source == "operator"
