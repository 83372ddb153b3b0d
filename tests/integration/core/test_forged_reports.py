"""Reports that are not true: refused with an event and a count, nothing of them stored, and honest ones still count."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import core_flow
import pytest
import sqlalchemy as sa
from rows import TARGET, add_batch, add_job, add_task

from db.models import Batch, Device, Evaluation, Event, JobTask, Record, Schedule, WorkloadRow
from db.queries import champions, fleet
from db.transactions import enrolment, ownership, refusals, revocations
from db.transactions.transitions import transition
from tunesmith.measuring.plausibility import HISTORY
from tunesmith.messages import BatchReport, Calibration, Confirmation, DeviceReport, EvaluationReport, WireResult
from tunesmith.signing import Signer
from tunesmith.states import JobState, WorkState
from workers.core import acceptance
from workers.core.context import Context
from workers.gate import NOTE

pytestmark = pytest.mark.parallel

GENUINE, OTHER = Signer.fresh(), Signer.fresh()
TRACE = "[[], [[0, [1, 1]]]]"
CALIBRATION = Calibration(
    peak_flops=1e10,
    bandwidth=1e10,
    noise_floor=0.01,
    reference_seconds=1e-3,
    latest_seconds=1e-3,
    measured_at="now",
    drift=1.0,
)


@pytest.fixture
def context(tmp_path: Path, database_url: str) -> Iterator[Context]:
    context = core_flow.core_context(tmp_path, database_url)
    with context.sessions.begin() as session:
        add_job(session)
        add_batch(session, add_task(session))
    enrol(context, GENUINE)
    enrol(context, OTHER)
    yield context
    context.sessions.kw["bind"].dispose()


def enrol(context: Context, signer: Signer, *device_classes: str) -> None:
    with context.sessions.begin() as session:
        enrolment.enrol(session, signer.worker, signer.public_key, "w", device_classes, "test")


def signed(signer: Signer, kind: type[Any], body: Any) -> dict[str, Any]:
    """Anything, signed."""

    class Anything(kind):  # type: ignore[misc]
        def model_dump_json(self, **_: Any) -> str:
            return json.dumps(body)

    return signer.sign(Anything.model_construct()).model_dump(mode="json")


def deliver(context: Context, kind: type[Any], body: Any, signer: Signer = GENUINE) -> None:
    core_flow.deliver(context, kind, signed(signer, kind, body))


def handed(context: Context, attempt: int = 1, kind: type[Any] = Batch) -> str:
    """The ticket that the message of an attempt carries."""
    with context.readers() as session:
        return ownership.ticket(session.get_one(kind, 1), attempt)


def claim(context: Context, *results: dict[str, Any], signer: Signer = GENUINE, **values: Any) -> None:
    body = {"batch_id": 1, "attempt": 1, "worker": "w", "ticket": handed(context), "results": list(results), **values}
    deliver(context, BatchReport, body, signer)


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
    (winner(1e-12), "implausible"),
    (winner(-5.0), "implausible"),
    (winner(math.inf), "not_a_number"),
    (winner(math.nan), "not_a_number"),
    (winner(1e-6, index=9), "not_in_batch"),
    (winner(1.0, trace="nonsense"), "trace"),
    (winner(1.0, trace="x" * 2_000_000), "too_large"),
    (winner(1.0, samples=[1.0] * 5000), "unreadable"),
    ({"index": "x"}, "unreadable"),
]


@pytest.mark.parametrize(
    ("workload", "seconds", "reason"),
    [("w1", 1e-12, "implausible"), ("w1", math.nan, "not_a_number"), ("w2", 1.0, "not_in_batch")],
)
def test_a_forged_rough_latency_is_refused(context: Context, workload: str, seconds: float, reason: str) -> None:
    claim(context, defaults=[{"workload": workload, "seconds": seconds}])
    assert reasons(context) == [reason]
    claim(context, defaults=[{"workload": "w1", "seconds": 1.0}])
    with context.readers() as session:
        assert session.scalars(sa.select(JobTask.rough_seconds)).all() == [1.0]


@pytest.mark.parametrize(("result", "reason"), FORGED, ids=[f"{reason}-{i}" for i, (_, reason) in enumerate(FORGED)])
def test_a_forged_result_leaves_an_event_and_nothing_else(context: Context, result: Any, reason: str) -> None:
    claim(context, winner(1.0, index=2), result)
    assert reasons(context) == [reason]
    assert stored(context) == 0
    with context.readers() as session:
        batch, task = session.get_one(Batch, 1), session.scalars(sa.select(JobTask)).one()
        assert (batch.state, batch.worker, task.best_seconds, task.trials) == (WorkState.QUEUED, None, None, 0)
        assert session.scalars(sa.select(Schedule)).all() == []
        assert fleet.refusals(session) == {reason: 1.0}
    claim(context, winner(1.0))
    assert stored(context) == 1
    with context.readers() as session:
        champion = champions.get(session, "w1", TARGET)
        assert champion is not None
        assert champion.latency == 1.0


@pytest.mark.parametrize(
    "body",
    [
        [1, 2, 3],
        None,
        "x",
        {},
        {"batch_id": 1},
        {"results": [{"index": 0}] * 200_000},
        {"batch_id": 1, "attempt": 1, "worker": "w" * 1000},
        {"batch_id": 1, "attempt": 1, "worker": "w", "more": 1},
        {"batch_id": 1, "attempt": 1, "worker": "w\ud800"},
    ],
    ids=["list", "null", "text", "empty", "half", "long", "name", "field", "surrogate"],
)
@pytest.mark.both_databases
def test_what_is_no_report_ends_nothing(context: Context, body: Any) -> None:
    deliver(context, BatchReport, body)
    assert len(reasons(context)) == 1
    assert stored(context) == 0


def test_times_are_held_against_the_device_that_reports(context: Context) -> None:
    device = DeviceReport(
        worker="w",
        name="d",
        host="h",
        device_classes=["llvm-x-2"],
        cores=2,
        target={"kind": "llvm"},
        calibration=CALIBRATION,
        calibrated="llvm-x-2",
    )
    deliver(context, DeviceReport, device.model_dump(mode="json"))
    claim(context, winner(1e6 / 1e11))  # of the workload's 1e6 FLOP, ten times the peak
    assert reasons(context) == ["implausible"]
    claim(context, winner(1e6 / 1e10), environment={"simulated": True})
    assert reasons(context) == ["implausible", "device"]
    claim(context, winner(1e6 / 1e10))
    assert stored(context) == 1
    quicker = CALIBRATION.model_copy(update={"peak_flops": 1.1 * HISTORY * CALIBRATION.peak_flops})
    deliver(context, DeviceReport, device.model_copy(update={"calibration": quicker}).model_dump(mode="json"))
    assert reasons(context)[2:] == ["calibration"]
    with context.readers() as session:
        assert session.get_one(Device, "d").calibration["peak_flops"] == 1e10
    other = device.model_copy(update={"name": "other", "worker": "w2", "device_classes": ["llvm-y-2"]})
    deliver(context, DeviceReport, other.model_dump(mode="json"))
    claim(context, winner(1.0, index=2), worker="w2")
    assert reasons(context)[3:] == ["device"]


def device_report(**values: Any) -> dict[str, Any]:
    given = {
        "worker": "w",
        "name": "d",
        "host": "h",
        "device_classes": ["llvm-x-2"],
        "cores": 2,
        "target": {"kind": "llvm"},
        **values,
    }
    return DeviceReport(**given).model_dump(mode="json")


def test_who_is_not_enrolled_or_not_who_it_says_is_not_believed(context: Context) -> None:
    stranger = Signer.fresh()
    claim(context, winner(1.0), signer=stranger)
    body = {"batch_id": 1, "attempt": 1, "worker": "w", "ticket": handed(context), "results": [winner(1.0)]}
    honest = signed(GENUINE, BatchReport, body)
    forged = [
        {**honest, "body": honest["body"].replace("1.0", "0.1")},
        {**honest, "sequence": honest["sequence"] + 1},
        {**honest, "worker": OTHER.worker},
        {**honest, "signature": "A" * 88},
        {**honest, "signature": "\u00e4"},
    ]
    for item in forged:
        core_flow.deliver(context, BatchReport, item)
    core_flow.deliver(context, EvaluationReport, honest)  # signed for another task
    assert reasons(context) == ["unknown_worker", *["signature"] * 6]
    core_flow.deliver(context, BatchReport, body)  # as it was before reports were signed
    core_flow.deliver(context, BatchReport, {NOTE: 20_000_000})
    core_flow.deliver(context, BatchReport, {**honest, "body": " " * 5_000_000})
    assert reasons(context)[7:] == ["unreadable", "too_large", "too_large"]
    with context.sessions.begin() as session:
        enrolment.revoke(session, GENUINE.worker, "test")
    core_flow.deliver(context, BatchReport, honest)
    assert reasons(context)[10:] == ["revoked_worker"]
    assert stored(context) == 0


def test_a_genuine_worker_cannot_report_what_another_one_holds(context: Context) -> None:
    claim(context, winner(1.0), signer=OTHER, ticket="")
    claim(context, winner(1.0), signer=OTHER, ticket="0" * 32)
    claim(context, winner(1.0), signer=OTHER, ticket=handed(context, 2))
    claim(context, winner(1.0), signer=OTHER, ticket=handed(context, 2), attempt=2)
    assert reasons(context) == ["not_holder"] * 4
    claim(context)  # the holder's heartbeat
    claim(context, winner(0.5), signer=OTHER)  # it was handed the same message, later
    assert reasons(context) == ["not_holder"] * 5
    assert stored(context) == 0
    with context.sessions.begin() as session:
        batch = session.get_one(Batch, 1)
        assert (batch.holders, batch.worker) == ({"1": GENUINE.worker}, "w")
        batch.attempt = 2
    claim(context, winner(1.0, index=2), signer=OTHER, attempt=2, ticket=handed(context, 2))
    claim(context, winner(1.0), winner(1.0, index=2))  # results of an earlier attempt, from its holder: once
    claim(context, winner(1.0), winner(1.0, index=2))
    assert reasons(context) == ["not_holder"] * 5
    with context.readers() as session:
        rows = session.execute(sa.select(Record.index, Record.worker_id).order_by(Record.index)).all()
    assert [tuple(row) for row in rows] == [(1, GENUINE.worker), (2, OTHER.worker)]


def test_a_worker_serves_the_classes_that_it_was_enrolled_for(context: Context) -> None:
    narrow = Signer.fresh()
    enrol(context, narrow, "llvm-y-2")
    claim(context, winner(1.0), signer=narrow)
    deliver(context, DeviceReport, device_report(), narrow)
    assert reasons(context) == ["device", "device"]


def test_signs_of_life_sent_again_keep_nothing_alive(context: Context) -> None:
    alive = signed(GENUINE, DeviceReport, device_report())
    core_flow.deliver(context, DeviceReport, alive)
    gone = signed(GENUINE, DeviceReport, device_report(stopping=True))
    core_flow.deliver(context, DeviceReport, gone)
    core_flow.deliver(context, DeviceReport, alive)
    with context.readers() as session:
        assert session.get_one(Device, "d").stopped
    sign = signed(GENUINE, BatchReport, {"batch_id": 1, "attempt": 1, "worker": "w", "ticket": handed(context)})
    core_flow.deliver(context, BatchReport, sign)
    with context.readers() as session:
        first = session.get_one(Batch, 1).deadline
    core_flow.deliver(context, BatchReport, sign)
    with context.readers() as session:
        assert session.get_one(Batch, 1).deadline == first
    claim(context)
    with context.readers() as session:
        assert session.get_one(Batch, 1).deadline > first
    assert reasons(context) == []


def test_a_live_device_is_not_taken_over(context: Context) -> None:
    deliver(context, DeviceReport, device_report(calibration=CALIBRATION.model_dump(), calibrated="llvm-x-2"))
    deliver(context, DeviceReport, device_report(), OTHER)
    assert reasons(context) == ["device"]
    with context.sessions.begin() as session:
        enrolment.revoke(session, GENUINE.worker, "test")
    deliver(context, DeviceReport, device_report(), OTHER)
    with context.readers() as session:
        device = session.get_one(Device, "d")
        assert (device.worker_id, device.calibrations) == (OTHER.worker, {})


def test_what_a_worker_reported_can_be_revoked_with_what_inherited_it(context: Context) -> None:
    claim(context, winner(2.0))
    with context.sessions.begin() as session:
        batch = session.get_one(Batch, 1)
        batch.attempt = 2
    claim(context, winner(0.5, index=2), signer=OTHER, attempt=2, ticket=handed(context, 2))
    with context.sessions.begin() as session:
        add_job(session, "j2")
        task = add_task(session, "j2")
        champion = champions.get(session, "w1", TARGET)
        assert champion is not None
        task.best_seconds, task.best_record_id = champion.latency, champion.record_id
        task.known_seconds = champion.latency
        assert champion.latency == 0.5
    with context.sessions.begin() as session:
        assert revocations.revoke_worker(session, OTHER.worker, "it lied") == revocations.Revoked(1, 1, 2)
    with context.readers() as session:
        champion = champions.get(session, "w1", TARGET)
        assert champion is not None
        assert (champion.latency, champion.trace) == (2.0, json.loads(TRACE))
        tasks = session.scalars(sa.select(JobTask).order_by(JobTask.id)).all()
        assert [(t.best_seconds, t.best_record_id) for t in tasks] == [(2.0, champion.record_id)] * 2
        assert tasks[1].known_seconds == 2.0
        assert session.scalar(sa.select(sa.func.count()).select_from(Record)) == 2
        kinds = session.scalars(sa.select(Event.kind).where(Event.job_id == "j2")).all()
        assert "champion_revoked" in kinds
    with context.sessions.begin() as session:
        revocations.revoke_records(session, [champion.record_id], "it lied, too")
    with context.readers() as session:
        assert champions.get(session, "w1", TARGET) is None
        bests = session.scalars(sa.select(JobTask.best_seconds)).all()
        assert bests == [None, None]


def evaluate(context: Context, tuned: float) -> None:
    """Report the check of the job's model."""
    body = {"evaluation_id": 1, "attempt": 1, "worker": "w", "ticket": handed(context, kind=Evaluation)}
    report = EvaluationReport(**body, untuned_samples=[1.0], tuned_samples=[tuned], applied=1, final=True)
    deliver(context, EvaluationReport, report.model_dump(mode="json"))


def test_an_evaluation_faster_than_the_device(context: Context) -> None:
    with context.sessions.begin() as session:
        job = session.get_one(core_flow.Job, "j1")
        transition(session, job, JobState.FINISHING)
        session.add(Evaluation(job_id="j1", device_class="llvm-x-2"))
    evaluate(context, 1e-8)
    assert reasons(context) == ["implausible"]
    with context.readers() as session:
        assert session.get_one(Evaluation, 1).state is WorkState.QUEUED
    evaluate(context, 0.1)
    with context.readers() as session:
        assert session.get_one(core_flow.Job, "j1").state is JobState.SUCCEEDED


def test_a_flood_of_refusals_does_not_fill_the_event_log(context: Context) -> None:
    for _ in range(3 * refusals.EVENTS):
        claim(context, winner(-1.0))
    assert len(reasons(context)) == refusals.EVENTS
    with context.readers() as session:
        assert fleet.refusals(session) == {"implausible": 3.0 * refusals.EVENTS}


@pytest.mark.parametrize(
    ("precision", "family", "kind", "marked"),
    [
        ("bf16", "matmul_pairs", "uint16", "bfloat16"),
        ("bf16", "max_pool2d", "uint16", "bfloat16"),
        ("float32", "matmul", "uint16", ""),
        ("int8", "matmul_quads", "int8", "int8"),
        ("int8", "max_pool2d", "int8", ""),
    ],
)
def test_narrow_operands_are_held_against_the_peak_of_their_type(
    precision: str, family: str, kind: str, marked: str
) -> None:
    row = WorkloadRow(args=[[kind, [4]], ["float32", [4]]], family=family)
    narrow, wide = acceptance.arguments(row, precision)
    assert (narrow.values.bits_of if narrow.values else "", wide.values) == (marked, None)


@pytest.mark.parametrize(("precision", "believed"), [("int8", True), ("float32", False)])
def test_a_model_of_bytes_may_be_as_fast_as_their_instruction(context: Context, precision: str, believed: bool) -> None:
    """Five times float32's peak, of four times that the instruction has and a margin of two."""
    narrow = CALIBRATION.model_copy(update={"narrow_flops": {"int8": 4e10}})
    deliver(context, DeviceReport, device_report(calibration=narrow.model_dump(mode="json"), calibrated="llvm-x-2"))
    with context.sessions.begin() as session:
        job, workload = session.get_one(core_flow.Job, "j1"), session.get_one(WorkloadRow, "w1")
        job.precision, workload.family = precision, "matmul_quads" if precision == "int8" else "matmul"
        workload.args = [["uint8", [4]], ["int8", [4]], ["uint8", [4]]] if precision == "int8" else [["float32", [4]]]
        transition(session, job, JobState.FINISHING)
        session.add(Evaluation(job_id="j1", device_class="llvm-x-2"))
    evaluate(context, 1e6 / 5e10)
    assert reasons(context) == ([] if believed else ["implausible"])
