"""Candidates that go wrong on purpose: each is classified, costs itself only, and the work goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hazards
import pytest
import sqlalchemy as sa
from coordinator_stack import Stack
from core_flow import core_context
from fake_fleet import Folder
from gemm_batches import LIMITS, Gemm, Mailbox
from kernels import ARGS, build, request
from process_probe import CHILD_ENV
from real_fleet import RealFleet
from rpc_device import RpcDevice

from db.models import Record, Schedule
from tunesmith.states import JobState
from tunesmith.targets import Target
from tunesmith.types import Candidate, FailureKind
from workers.measure import task_memory
from workers.measure.worker import MeasureWorker
from workers.sandbox import limits
from workers.sandbox.pool import Actor
from workers.settings import Settings
from workers.tvm_backend.run.runner import RpcRunner

pytestmark = pytest.mark.servers
TARGET = {"kind": "llvm", "mcpu": "x86-64", "num-cores": 1}
RUN_MEMORY, BUILD_MEMORY = 1024 * limits.MIB, 512 * limits.MIB
QUICK = LIMITS.model_copy(update={"build_timeout": 10.0, "run_timeout": 4.0, "finalists": 16})
OPERATOR, TRIALS, ONE_IN = "gemm:96x96x96:float32", 16, 3


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcDevice]:
    share = {"TUNESMITH_MEMORY_SHARE": str(RUN_MEMORY / limits.host_memory())}
    made = RpcDevice(tmp_path_factory.mktemp("device"), env=share)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def runner(device: RpcDevice) -> Iterator[RpcRunner]:
    made = RpcRunner(device.tracker, device.key, device.lease, wait=30.0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def gemm() -> Gemm:
    return Gemm.make(Target({**TARGET, "num-cores": 2}), 16)


@dataclass(frozen=True)
class Planted:
    """A measure worker whose builders plant hazards, by the decisions of ``plan``."""

    worker: MeasureWorker
    mailbox: Mailbox
    plan: Mapping[Any, str]


def start(device: RpcDevice, folder: Path, send: Any, plan: Mapping[Any, str], one_in: int = 0) -> MeasureWorker:
    settings = Settings(
        data_dir=folder, tracker=device.tracker, device_key=device.key, lease_file=device.lease, queues=("measure",)
    )
    arguments = (str(device.lease), "llvm", plan, one_in)
    builder = Actor("hazards:PlantedBuilder", arguments, env=CHILD_ENV, memory=BUILD_MEMORY)
    runner = RpcRunner(device.tracker, device.key, device.lease, wait=2.0)
    return MeasureWorker(settings, send, runner, builder)


@pytest.fixture(scope="module")
def planted(device: RpcDevice, gemm: Gemm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    """One hazard of each kind, then sound candidates, the last of which takes the device down."""
    plan = {c.decisions: kind for c, kind in zip(gemm.candidates, hazards.ALL, strict=False)}
    plan[gemm.candidates[-1].decisions] = hazards.MURDER
    mailbox = Mailbox()
    with pytest.MonkeyPatch.context() as patch:
        # A candidate of much code may take six times as long to build as the others, and is given up then.
        patch.setattr(task_memory, "BUILD_ABORT", 1000.0)
        worker = start(device, tmp_path_factory.mktemp("data"), mailbox.send, plan)
        yield Planted(worker, mailbox, plan)
        worker.close()


@pytest.mark.parametrize("kind", hazards.ON_THE_DEVICE)
def test_hazard_on_the_device_is_classified_and_costs_itself_only(runner: RpcRunner, tmp_path: Path, kind: str) -> None:
    bad, good = tmp_path / f"{kind}.so", build(tmp_path, "good")
    hazards.library(kind, ARGS, bad)
    failure, words = hazards.ON_THE_DEVICE[kind]
    # Taking all the memory that there is takes its time: only a loop without end is to be cut off.
    limit = 4.0 if failure is FailureKind.RUN_TIMEOUT else 60.0
    requests = [request(path, run_timeout=limit, abort=1e9) for path in (good, bad, good)]
    runner.open(TARGET)
    try:
        before, outcome, after = runner.race(requests, None)
    finally:
        runner.release()
    assert (outcome.failure, outcome.samples) == (failure, ())
    assert words in outcome.message
    assert before.failure is None
    assert after.failure is None


def test_a_batch_full_of_hazards_is_measured_and_the_next_one_runs_none_of_them(planted: Planted, gemm: Gemm) -> None:
    worker, mailbox, plan = planted.worker, planted.mailbox, planted.plan
    chosen = gemm.candidates[:-1]
    kinds = {i: plan.get(c.decisions) for i, c in enumerate(chosen, start=1)}

    worker.measure(gemm.batch(1, chosen, limits=QUICK, incumbent_seconds=1.0))
    results = mailbox.results(1)
    assert sorted(results) == [0, *kinds]
    assert results[0].failure is None
    for index, kind in kinds.items():
        result = results[index]
        failure, words = hazards.ALL[kind] if kind else (None, "")
        if kind == "wrong" and result.confirmation is None:
            continue  # slower than a sound finalist: nobody asked what it computes
        assert result.failure is failure, (kind, result)
        assert words in result.message, (kind, result)
        assert bool(result.samples) == (failure is None)
        assert (failure is None) or not (result.confirmation and result.confirmation.won)
    assert any(r.confirmation and r.confirmation.won for r in results.values())

    (wrong,) = (c for c in chosen if plan.get(c.decisions) == "wrong")
    worker.measure(gemm.batch(903, [wrong], limits=QUICK, job_id="a third", incumbent_seconds=1.0))
    result = mailbox.results(903)[1]
    assert (result.failure, result.samples) == (FailureKind.WRONG_RESULT, [])
    assert result.confirmation is not None
    assert not result.confirmation.won

    survivors = [c for c in chosen if plan.get(c.decisions) not in hazards.IN_THE_BUILD]
    worker.measure(gemm.batch(2, survivors, limits=QUICK, job_id="another"))
    results = mailbox.results(2)
    for index, candidate in enumerate(survivors, start=1):
        result, kind = results[index], plan.get(candidate.decisions)
        if kind in hazards.ON_THE_DEVICE:
            assert result.failure is hazards.ON_THE_DEVICE[kind][0]
            assert "not run again" in result.message
        elif kind is None:
            assert result.failure is None, result


def test_candidate_that_takes_the_device_down_is_blamed_at_the_third_attempt(
    planted: Planted, gemm: Gemm, device: RpcDevice
) -> None:
    worker, mailbox = planted.worker, planted.mailbox
    sound = [c for c in gemm.candidates if c.decisions not in planted.plan]
    chosen = [sound[0], gemm.candidates[-1], *sound[1:3]]
    for attempt in (1, 2):
        with device.dying_at(hazards.DEATHBED):
            worker.measure(gemm.batch(3, chosen, job_id="third", attempt=attempt, limits=QUICK))
        found = mailbox.results(3, attempt, error="no device")
        assert 2 not in found, found[2]
    worker.measure(gemm.batch(3, chosen, job_id="third", attempt=3, limits=QUICK))
    results = mailbox.results(3, 3)
    assert sorted(results) == [0, 1, 2, 3, 4]
    assert results[2].failure is FailureKind.CRASH
    assert "2 times" in results[2].message
    assert all(results[i].samples for i in (0, 1, 3, 4))


@pytest.mark.thorough
def test_a_job_succeeds_although_every_third_candidate_is_a_hazard(
    device: RpcDevice, tmp_path: Path, sqlite_url: str
) -> None:
    stack = Stack(Folder(tmp_path, sqlite_url))
    fleet = RealFleet(core_context(tmp_path, sqlite_url), lambda batch: batch.model_copy(update={"limits": QUICK}))
    stack.fleet = fleet
    worker = start(device, tmp_path, fleet.send, {}, ONE_IN)
    try:
        fleet.join(worker)
        job_id = stack.submit(OPERATOR, budget={"trials": TRIALS}, search="random", warm_start=False)
        stack.finish(job_id)
        assert stack.state(job_id) is JobState.SUCCEEDED
        records = [r for r in stack.rows(Record) if r.sketch_hash is not None]
        (champion,) = stack.rows_of(sa.select(Schedule))
    finally:
        worker.close()
        stack.close()
    planted = {r.id: hazards.drawn(Candidate.from_json([None, r.decisions]).decisions, ONE_IN) for r in records}
    assert len(records) == TRIALS
    assert len({kind for kind in planted.values() if kind}) > 3
    assert planted[champion.record_id] is None
    for record in records:
        kind = planted[record.id]
        if kind is None:
            assert record.failure is None, record.message
        elif kind not in hazards.WRONG:  # wrong numbers show only when they would become champion
            assert record.failure == hazards.ALL[kind][0].value, (kind, record.message)
