"""Reports that are not true: refused with an event and a count, nothing of them stored, and honest ones still count."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import core_flow
import pytest
import sqlalchemy as sa
from rows import TARGET, add_batch, add_job, add_task

from db.models import Batch, Device, Evaluation, Event, JobTask, Record, Schedule
from db.repositories import refusals, schedules
from db.repositories.transitions import transition
from tunesmith.messages import BatchReport, Calibration, Confirmation, DeviceReport, EvaluationReport, WireResult
from tunesmith.states import JobState, WorkState
from workers.core.context import Context
from workers.core.tasks import CORE_TASKS, take_in
from workers.gate import NOTE

pytestmark = pytest.mark.parallel

TRACE = "[[], [[0, [1, 1]]]]"
CALIBRATION = Calibration(
    peak_flops=1e10, bandwidth=1e10, noise_floor=0.01, reference_seconds=1e-3, latest_seconds=1e-3, measured_at="now",
    drift=1.0,
)  # fmt: skip


@pytest.fixture
def context(tmp_path: Path, database_url: str) -> Iterator[Context]:
    context = core_flow.core_context(tmp_path, database_url)
    with context.sessions.begin() as session:
        add_job(session)
        add_batch(session, add_task(session))
    yield context
    context.sessions.kw["bind"].dispose()


def deliver(context: Context, kind: type[Any], body: Any) -> None:
    """What a worker of the queue ``record`` does with a message."""
    (task,) = [task for task in CORE_TASKS if task.message is kind]
    take_in(task, context, body)


def claim(context: Context, *results: dict[str, Any], **values: Any) -> None:
    body = {"batch_id": 1, "attempt": 1, "worker": "w", "results": list(results), **values}
    deliver(context, BatchReport, body)


def winner(seconds: float, index: int = 1, **values: Any) -> dict[str, Any]:
    confirmation = Confirmation(samples=[seconds] * 5, won=True)
    result = WireResult(index=index, samples=[seconds], trace=TRACE, confirmation=confirmation)
    return {**result.model_dump(mode="json"), **values}


def reasons(context: Context) -> list[str]:
    with context.readers() as session:
        rows = session.scalars(sa.select(Event).where(Event.kind == "report_refused").order_by(Event.id)).all()
        return [row.data["reason"] for row in rows]


def stored(context: Context) -> int:
    with context.readers() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(Record)) or 0


FORGED = [
    (winner(1e-12), "implausible"), (winner(-5.0), "implausible"), (winner(math.inf), "not_a_number"),
    (winner(math.nan), "not_a_number"), (winner(1e-6, index=9), "not_in_batch"),
    (winner(1.0, trace="nonsense"), "trace"), (winner(1.0, trace="x" * 2_000_000), "too_large"),
    (winner(1.0, samples=[1.0] * 5000), "unreadable"), ({"index": "x"}, "unreadable"),
]  # fmt: skip


@pytest.mark.parametrize(("result", "reason"), FORGED, ids=[f"{reason}-{i}" for i, (_, reason) in enumerate(FORGED)])
def test_a_forged_result_leaves_an_event_and_nothing_else(context: Context, result: Any, reason: str) -> None:
    claim(context, winner(1.0, index=2), result)
    assert reasons(context) == [reason]
    assert stored(context) == 0
    with context.readers() as session:
        batch, task = session.get_one(Batch, 1), session.scalars(sa.select(JobTask)).one()
        assert (batch.state, batch.worker, task.best_seconds, task.trials) == (WorkState.QUEUED, None, None, 0)
        assert session.scalars(sa.select(Schedule)).all() == []
        assert refusals.counts(session) == {reason: 1.0}
    claim(context, winner(1.0))
    assert stored(context) == 1
    with context.readers() as session:
        champion = schedules.get(session, "w1", TARGET)
        assert champion is not None
        assert champion.latency == 1.0


@pytest.mark.parametrize(
    "body",
    [
        [1, 2, 3], None, "x", {}, {"batch_id": 1}, {NOTE: 20_000_000}, {"results": [{"index": 0}] * 200_000},
        {"batch_id": 1, "attempt": 1, "worker": "w" * 1000}, {"batch_id": 1, "attempt": 1, "worker": "w", "more": 1},
        {"batch_id": 1, "attempt": 1, "worker": "w\ud800"},
    ],
    ids=["list", "null", "text", "empty", "half", "large", "long", "name", "field", "surrogate"],
)  # fmt: skip
def test_what_is_no_report_ends_nothing(context: Context, body: Any) -> None:
    deliver(context, BatchReport, body)
    assert len(reasons(context)) == 1
    assert stored(context) == 0


def test_times_are_held_against_the_device_that_reports(context: Context) -> None:
    device = DeviceReport(
        worker="w", name="d", host="h", device_classes=["llvm-x-2"], cores=2, target={"kind": "llvm"},
        calibration=CALIBRATION, calibrated="llvm-x-2",
    )  # fmt: skip
    deliver(context, DeviceReport, device.model_dump(mode="json"))
    claim(context, winner(1e6 / 1e11))  # of the workload's 1e6 FLOP, ten times the peak
    assert reasons(context) == ["implausible"]
    claim(context, winner(1e6 / 1e10), environment={"simulated": True})
    assert reasons(context) == ["implausible", "device"]
    claim(context, winner(1e6 / 1e10))
    assert stored(context) == 1
    quicker = CALIBRATION.model_copy(update={"peak_flops": 9e10})
    deliver(context, DeviceReport, device.model_copy(update={"calibration": quicker}).model_dump(mode="json"))
    assert reasons(context)[2:] == ["calibration"]
    with context.readers() as session:
        assert session.get_one(Device, "d").calibration["peak_flops"] == 1e10
    other = device.model_copy(update={"name": "other", "worker": "w2", "device_classes": ["llvm-y-2"]})
    deliver(context, DeviceReport, other.model_dump(mode="json"))
    claim(context, winner(1.0, index=2), worker="w2")
    assert reasons(context)[3:] == ["device"]


def test_an_evaluation_faster_than_the_device(context: Context) -> None:
    with context.sessions.begin() as session:
        job = session.get_one(core_flow.Job, "j1")
        transition(session, job, JobState.FINISHING)
        session.add(Evaluation(job_id="j1", device_class="llvm-x-2"))
    report = EvaluationReport(
        evaluation_id=1, attempt=1, worker="w", untuned_samples=[1.0], tuned_samples=[1e-8], applied=1, final=True
    )  # fmt: skip
    deliver(context, EvaluationReport, report.model_dump(mode="json"))
    assert reasons(context) == ["implausible"]
    with context.readers() as session:
        assert session.get_one(Evaluation, 1).state is WorkState.QUEUED
    honest = report.model_copy(update={"tuned_samples": [0.1]})
    deliver(context, EvaluationReport, honest.model_dump(mode="json"))
    with context.readers() as session:
        assert session.get_one(core_flow.Job, "j1").state is JobState.SUCCEEDED


def test_a_flood_of_refusals_does_not_fill_the_event_log(context: Context) -> None:
    for _ in range(3 * refusals.EVENTS):
        claim(context, winner(-1.0))
    assert len(reasons(context)) == refusals.EVENTS
    with context.readers() as session:
        assert refusals.counts(session) == {"implausible": 3.0 * refusals.EVENTS}
