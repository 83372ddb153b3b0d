"""The data of an earlier schema, as its service left it: read, resumed and compiled by this one.

``tests/assets/upgrade`` has one archive for each such schema, named after its revision: a small network, the data
folder of the service and what a user exported of a finished job. Another job was running when the service was ended.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numerics
import numpy as np
import pytest
import sqlalchemy as sa
from coordinator_stack import Stack
from core_flow import core_context
from fake_fleet import Folder
from gemm_batches import LIMITS
from numpy.typing import NDArray
from real_fleet import RealFleet
from rpc_device import CHILD_ENV, RpcDevice

from db.engine import create_engine, current_revision, migrate
from db.models import Job, Record, Round
from services.coordinator.auth import ANYBODY
from services.coordinator.requests import JobChange
from services.coordinator.usecases import events, jobs
from tunesmith.answers.jobs import BudgetBody
from tunesmith.cli.main import run_command_line
from tunesmith.event_kinds import EventKind
from tunesmith.states import JobState
from workers.measure.worker import MeasureWorker
from workers.sandbox.pool import Actor
from workers.settings import Settings
from workers.tvm_backend.run.runner import RpcRunner

pytestmark = pytest.mark.servers

ASSETS = Path(__file__).parents[2] / "assets" / "upgrade"
SCHEMAS = sorted(path.name.partition(".")[0] for path in ASSETS.iterdir())
DEVICE_CLASS = "llvm-x86-64-v3-2"
Array = NDArray[Any]


@dataclass(frozen=True)
class Left:
    """What a service of an earlier schema left."""

    schema: str
    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def model(self) -> Path:
        return self.folder / "net.onnx"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.data / 'tunesmith.db'}"


@pytest.fixture(params=SCHEMAS)
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Left:
    with tarfile.open(ASSETS / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return Left(request.param, tmp_path)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcDevice]:
    made = RpcDevice(tmp_path_factory.mktemp("device"))
    yield made
    made.stop()


def measure_worker(left: Left, device: RpcDevice, fleet: RealFleet) -> MeasureWorker:
    settings = Settings(
        data_dir=left.data,
        tracker=device.tracker,
        device_key=device.key,
        lease_file=device.lease,
        queues=("measure",),
        device_classes=(DEVICE_CLASS,),
    )
    builder = Actor("workers.tvm_backend.build.builder:Builder", (str(device.lease), "llvm"), env=CHILD_ENV)
    return MeasureWorker(settings, fleet.send, RpcRunner(device.tracker, device.key, device.lease, wait=5.0), builder)


def test_jobs_of_an_earlier_schema_are_shown_and_the_interrupted_one_goes_on(left: Left, device: RpcDevice) -> None:
    engine = create_engine(left.url)
    assert current_revision(engine) == left.schema
    engine.dispose()
    migrate(left.url)
    stack = Stack(Folder(left.data, left.url))
    fleet = RealFleet(core_context(left.data, left.url), lambda batch: batch.model_copy(update={"limits": LIMITS}))
    stack.fleet = fleet
    worker = measure_worker(left, device, fleet)
    try:
        bodies = {row.name: jobs.show(stack.context, ANYBODY, row.id) for row in stack.rows(Job)}
        finished, interrupted = bodies["first"], bodies["interrupted"]
        assert (finished.state, finished.progress.trials) == (JobState.SUCCEEDED, 24)
        assert (finished.latency.source, finished.latency.schedules) == ("measured", 2)
        assert (interrupted.state, interrupted.progress.trials) == (JobState.RUNNING, 24)
        said = [event for job in bodies.values() for event in events.page(stack.context, ANYBODY, job.id, 0, 200).items]
        in_flight = stack.rows_of(sa.select(Round.size).where(Round.finished_at.is_(None)))
        stack.expire()
        jobs.change(stack.context, ANYBODY, interrupted.id, JobChange(budget=BudgetBody(trials=40)))
        fleet.join(worker)
        stack.finish(interrupted.id)
        after = jobs.show(stack.context, ANYBODY, interrupted.id)
        own = sa.select(Record).where(Record.job_id == interrupted.id, Record.sketch_hash.is_not(None))
        records = stack.rows_of(own)
    finally:
        worker.close()
        stack.close()
    assert {event.formerly for event in said if event.kind == EventKind.CHALLENGER_REJECTED} == {"crown_refused"}
    assert {event.formerly for event in said if event.kind != EventKind.CHALLENGER_REJECTED} == {None}
    assert (after.state, after.error) == (JobState.SUCCEEDED, None)
    assert in_flight, "rounds that were open are measured to their end"
    assert after.progress.trials == len(records) == 24 + sum(in_flight) > 40
    assert len({(row.sketch_hash, str(row.decisions)) for row in records}) == len(records), "measured twice"
    assert after.latency.speedup is not None


@pytest.mark.parametrize("log", ["best.jsonl", "metaschedule"])
def test_what_an_earlier_schema_exported_is_compiled_with_its_schedules(
    left: Left, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    library = left.folder / "net.so"
    given = [str(left.model), "--log", str(left.folder / "tuned" / log), "-o", str(library), "--json"]
    assert run_command_line(["compile", *given]) == 0, capsys.readouterr().err
    answer = json.loads(capsys.readouterr().out)
    # It lost a NaN when the log was written: a task of another computation.
    assert (answer["schedules"], answer["missing"]) == (2, ["fused_conv2d_blocked_relu"])
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    x = np.random.default_rng(0).standard_normal((1, 8, 8, 8)).astype("float32")
    ours: Array = machine["main"](tvm.runtime.tensor(x)).numpy()
    assert np.allclose(ours, numerics.reference(left.model, {"x": x}), atol=1e-4)


def test_a_log_of_another_model_is_refused_and_no_library_is_left(
    left: Left, capsys: pytest.CaptureFixture[str]
) -> None:
    library = left.folder / "net.so"
    given = ["gemm:64x32x16:float32", "--log", str(left.folder / "tuned" / "best.jsonl"), "-o", str(library), "--json"]
    assert run_command_line(["compile", *given]) == 2
    refused = json.loads(capsys.readouterr().out)
    assert refused["code"] == "invalid_input"
    assert "no schedule in the log fits" in refused["detail"]
    assert not library.exists()
