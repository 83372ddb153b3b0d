"""The scheduling loop on a real database, with a fake fleet: messages lost, late, doubled; brokers, devices gone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from coordinator_stack import Stack
from fake_fleet import PARAMS_SIZE, TARGET, Folder, Sent

from db.models import Batch, CostModelRow, Device, Evaluation, Event, Job, JobTask, Model, Record, Round, Schedule
from services.coordinator.auth import ANYBODY
from services.coordinator.scheduling.loop import SchedulingLoop
from services.coordinator.usecases import curve, jobs
from tunesmith.messages import EvaluateModel, IngestModel, MeasureBatch, ModelWeights, ProposeRound
from tunesmith.states import JobState, RoundState, WorkState

pytestmark = pytest.mark.parallel


@pytest.fixture
def stack(tmp_path: Path, sqlite_url: str) -> Iterator[Stack]:
    made = Stack(Folder(tmp_path, sqlite_url))
    yield made
    made.close()


@pytest.fixture
def both(tmp_path: Path, database_url: str) -> Iterator[Stack]:
    """With a device, on either kind of database."""
    made = Stack(Folder(tmp_path, database_url))
    made.fleet.register_device()
    yield made
    made.close()


@pytest.fixture
def ready(stack: Stack) -> Stack:
    stack.fleet.register_device()
    return stack


def accounted(stack: Stack, job_id: str, trials: int) -> None:
    """Every trial has one record, and the budget is spent to the last one."""
    body = jobs.show(stack.context, ANYBODY, job_id)
    records = [row for row in stack.rows(Record) if row.sketch_hash is not None and row.job_id == job_id]
    assert len(records) == len({(row.batch_id, row.index) for row in records}) == body.progress.trials == trials


def test_a_job_from_submission_to_success(both: Stack) -> None:
    job_id = both.submit(cost_model="xgboost", budget={"trials": 120})
    both.finish(job_id)
    body = jobs.show(both.context, ANYBODY, job_id)
    assert (body.state, body.stop_reason, body.error) == (JobState.SUCCEEDED, "trials", None)
    assert body.latency.source == "measured"
    assert body.latency.speedup == pytest.approx(3)
    accounted(both, job_id, 120)
    found = curve.curve(both.context, ANYBODY, job_id)
    values = [point.latency for point in found.points]
    assert values == sorted(values, reverse=True)
    assert found.points[-1].trials == 120
    assert found.tasks_measured == 3
    assert any(row.state is WorkState.DONE for row in both.rows(CostModelRow))
    kinds = [row.kind for row in both.rows(Event) if row.job_id == job_id]
    assert kinds[0] == "job_queued"
    # A model of the last results may still be fitted: for jobs to come.
    assert [kind for kind in kinds if not kind.startswith("cost_model")][-1] == "job_succeeded"
    assert {"job_preparing", "job_running", "round_opened", "round_finished", "new_best", "job_finishing"} <= set(kinds)


def test_doubled_and_repeated_messages_change_nothing(ready: Stack) -> None:
    job_id = ready.submit()
    seen: list[Sent] = []

    def twice(sent: Sent) -> list[Sent]:
        seen.append(sent)
        return [sent, sent, seen[len(seen) // 2]]

    ready.finish(job_id, twice)
    assert ready.state(job_id) is JobState.SUCCEEDED
    accounted(ready, job_id, 60)


def test_lost_messages_are_sent_again(both: Stack) -> None:
    """Every second message never arrives: as when Redis is killed and comes back empty."""
    job_id = both.submit()
    count = [0]

    def lossy(sent: Sent) -> list[Sent]:
        count[0] += 1
        both.expire()
        return [sent] if count[0] % 2 else []

    both.finish(job_id, lossy)
    assert both.state(job_id) is JobState.SUCCEEDED
    accounted(both, job_id, 60)
    assert max(row.attempt for row in both.rows(Batch)) == 1  # nobody had taken what was lost


def test_a_late_result_counts_once(ready: Stack) -> None:
    job_id = ready.submit()
    late: list[Sent] = []

    def hold_first_batch(sent: Sent) -> list[Sent]:
        if isinstance(sent.message, MeasureBatch) and not late:
            late.append(sent)
            with ready.context.sessions.begin() as session:
                batch = session.get_one(Batch, sent.message.batch_id)
                batch.worker, batch.state = "dead-worker", WorkState.RUNNING
            ready.expire()
            return []
        return [sent]

    ready.run(lambda: bool(late), hold_first_batch)
    ready.run(lambda: any(row.attempt == 2 and row.dispatched == 2 for row in ready.rows(Batch)), lambda sent: [])
    ready.fleet.do(late[0].message)  # the first attempt's worker was only slow
    ready.expire()
    ready.finish(job_id)
    accounted(ready, job_id, 60)


def test_a_batch_tells_which_arguments_its_model_streams(ready: Stack) -> None:
    job_id = ready.submit()
    seen: dict[str, ModelWeights | None] = {}

    def note(sent: Sent) -> list[Sent]:
        if isinstance(sent.message, MeasureBatch):
            seen[sent.message.workload.rpartition("-")[2]] = sent.message.weights
        return [sent]

    ready.run(lambda: len(seen) == 3, note)
    assert seen == {"w0": ModelWeights(arguments=(0,), size=PARAMS_SIZE), "w1": None, "w2": None}
    ready.finish(job_id)
    champions = ready.rows_of(sa.select(Schedule))
    assert {row.workload_hash.rpartition("-")[2]: row.cache for row in champions} == {
        "w0": "streamed",
        "w1": "warm",
        "w2": "warm",
    }


def test_only_missing_candidates_go_out_again(ready: Stack) -> None:
    ready.submit()
    seen: list[MeasureBatch] = []

    def half(sent: Sent) -> list[Sent]:
        if not isinstance(sent.message, MeasureBatch):
            return [sent]
        seen.append(sent.message)
        if len(seen) > 1:
            return []
        kept = sent.message.candidates[:3]
        partial = sent.message.model_copy(update={"candidates": kept})
        return [Sent(sent.queue, sent.task_id, partial)]

    ready.run(lambda: bool(seen), half)
    ready.expire()
    first = seen[0]
    ready.run(lambda: any(m.batch_id == first.batch_id and m.attempt == 2 for m in seen), half)
    repeated = next(m for m in seen if m.batch_id == first.batch_id and m.attempt == 2)
    assert [c.index for c in repeated.candidates] == [c.index for c in first.candidates[3:]]


def test_after_the_last_attempt_the_rest_is_abandoned(both: Stack) -> None:
    job_id = both.submit(budget={"trials": 30})
    poisoned: list[int] = []

    def poison(sent: Sent) -> list[Sent]:
        if isinstance(sent.message, MeasureBatch) and (not poisoned or sent.message.batch_id == poisoned[0]):
            poisoned.append(sent.message.batch_id)
            with both.context.sessions.begin() as session:
                batch = session.get_one(Batch, sent.message.batch_id)
                batch.worker, batch.state = "dying-worker", WorkState.RUNNING
            both.expire()
            return []
        return [sent]

    both.finish(job_id, poison)
    assert len(poisoned) == both.context.settings.max_attempts
    abandoned = [row for row in both.rows(Record) if row.failure == "abandoned"]
    assert {row.batch_id for row in abandoned} == {poisoned[0]}
    assert both.state(job_id) is JobState.SUCCEEDED


def test_an_import_that_kills_its_worker_is_rejected(stack: Stack) -> None:
    job_id = stack.submit()

    def die(sent: Sent) -> list[Sent]:
        assert isinstance(sent.message, IngestModel)
        with stack.context.sessions.begin() as session:
            session.get_one(Model, sent.message.model_id).worker = "dead"
        stack.expire()
        return []

    stack.finish(job_id, die)
    body = jobs.show(stack.context, ANYBODY, job_id)
    assert body.state is JobState.FAILED
    assert body.error is not None
    assert body.error["code"] == "model_rejected"


def test_a_rejected_model_fails_its_job(stack: Stack) -> None:
    stack.fleet.problem = {"code": "unsupported_operator", "detail": "Foo (2)", "status": 422}
    job_id = stack.submit()
    stack.finish(job_id)
    assert jobs.show(stack.context, ANYBODY, job_id).error == stack.fleet.problem


def test_waits_for_a_device_and_goes_on(stack: Stack) -> None:
    job_id = stack.submit(budget={"trials": 40, "seconds": 500})
    batches: list[Sent] = []

    def no_device(sent: Sent) -> list[Sent]:
        if isinstance(sent.message, MeasureBatch):
            batches.append(sent)
            return []
        return [sent]

    stack.run(lambda: bool(batches), no_device)
    assert batches[0].queue == f"measure.{TARGET.device_class}"
    for _ in range(8):  # however long it takes: nothing is sent again, nothing used up
        stack.expire()
        stack.loop.step()
    assert not stack.broker.sent
    assert [row.attempt for row in stack.rows(Batch)] == [1]
    body = jobs.show(stack.context, ANYBODY, job_id)
    assert body.waiting_for == {"device_class": TARGET.device_class}
    with stack.context.sessions.begin() as session:
        job = session.get_one(Job, job_id)
        assert job.paused_at is not None  # the clock stands
        job.paused_at -= dt.timedelta(seconds=1000)
        job.created_at -= dt.timedelta(seconds=1000)
    stack.fleet.register_device()
    stack.expire()
    stack.finish(job_id)
    body = jobs.show(stack.context, ANYBODY, job_id)
    assert (body.state, body.stop_reason, body.waiting_for) == (JobState.SUCCEEDED, "trials", None)
    assert body.progress.seconds < 500


def test_a_busy_device_is_not_sent_the_same_again(ready: Stack) -> None:
    ready.submit()
    ready.run(lambda: bool(ready.rows(Batch)))
    with ready.context.sessions.begin() as session:
        session.execute(sa.update(Device).values(busy=True))
    ready.run(lambda: any(row.dispatched for row in ready.rows(Batch)), lambda sent: [])
    ready.broker.take()
    ready.expire()
    ready.loop.step()
    assert not [sent for sent in ready.broker.take() if isinstance(sent.message, MeasureBatch)]


def test_a_dead_broker_delays_and_loses_nothing(ready: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.coordinator.scheduling.loop.BACKOFF_SECONDS", 0.0)
    ready.broker.alive = False
    job_id = ready.submit()
    for _ in range(3):
        ready.loop.step()
    assert [row.dispatched for row in ready.rows(Model)] == [0]
    ready.broker.alive = True
    ready.finish(job_id)
    accounted(ready, job_id, 60)


@pytest.mark.both_databases
def test_two_loops_at_once_do_nothing_twice(both: Stack) -> None:
    other = SchedulingLoop(both.context)
    job_id = both.submit(budget={"trials": 100})
    for _ in range(200):
        both.loop.step()
        other.step()
        sent = both.broker.take()
        assert len({item.task_id for item in sent}) == len(sent)
        for item in sent:
            both.fleet.do(item.message)
        if both.state(job_id) is JobState.SUCCEEDED:
            break
    accounted(both, job_id, 100)
    assert [row.number for row in both.rows(Round)] == [*range(1, len(both.rows(Round)) + 1)]
    assert len(both.rows(Evaluation)) == 1


@pytest.mark.both_databases
def test_two_threads_of_loops_and_a_fleet(both: Stack) -> None:
    loops = [SchedulingLoop(both.context), SchedulingLoop(both.context)]
    job_id = both.submit(budget={"trials": 80})
    for loop in loops:
        loop.start()
    try:
        seen = {JobState.QUEUED}
        for _ in range(2000):
            for item in both.broker.take():
                both.fleet.do(item.message)
            seen.add(both.state(job_id))
            if JobState.SUCCEEDED in seen:
                break
            both.context.wake.wait(0.02)
    finally:
        for loop in loops:
            loop.stop()
    assert JobState.SUCCEEDED in seen
    accounted(both, job_id, 80)


def test_a_task_is_proposed_for_while_its_last_batch_is_measured(ready: Stack) -> None:
    """A job of one task has its next batch ready before the results of the first are in."""
    ready.fleet.tasks = 1
    job_id = ready.submit(budget={"trials": 200})
    batches: list[Sent] = []

    def hold_the_first(sent: Sent) -> list[Sent]:
        if not isinstance(sent.message, MeasureBatch):
            return [sent]
        batches.append(sent)
        return {1: [], 2: batches}.get(len(batches), [sent])

    ready.finish(job_id, hold_the_first)
    accounted(ready, job_id, 200)


def test_of_few_trials_none_is_proposed_before_the_last_results_are_in(ready: Stack) -> None:
    ready.fleet.tasks = 1
    job_id = ready.submit(budget={"trials": 70})
    under_way: list[int] = []

    def count(sent: Sent) -> list[Sent]:
        if isinstance(sent.message, ProposeRound):
            under_way.append(sum(row.state is RoundState.MEASURING for row in ready.rows(Round)))
        return [sent]

    ready.finish(job_id, count)
    accounted(ready, job_id, 70)
    assert under_way == [0] * 5


def test_cancelling_one_job_leaves_the_other(both: Stack) -> None:
    first, second = both.submit(), both.submit("gemm:128x128x128:float32")
    both.run(lambda: both.state(first) is both.state(second) is JobState.RUNNING)
    both.run(lambda: bool(both.rows(Batch)), lambda sent: [sent] if isinstance(sent.message, ProposeRound) else [])
    jobs.cancel(both.context, ANYBODY, first)
    both.finish(second)
    assert both.state(first) is JobState.CANCELLED
    assert both.state(second) is JobState.SUCCEEDED
    accounted(both, second, 60)
    mine = [row for row in both.rows(Batch) if row.job_id == first]
    assert all(row.state in (WorkState.CANCELLED, WorkState.DONE) for row in mine)
    assert len(both.broker.revoked) == sum(row.state is WorkState.CANCELLED for row in mine)


def test_pause_and_resume(ready: Stack) -> None:
    job_id = ready.submit()
    ready.run(lambda: jobs.show(ready.context, ANYBODY, job_id).progress.trials > 0)
    jobs.pause(ready.context, ANYBODY, job_id)
    ready.run(lambda: jobs.show(ready.context, ANYBODY, job_id).progress.rounds_in_flight == 0)
    before = len(ready.rows(Round))
    for _ in range(5):
        ready.loop.step()
    assert len(ready.rows(Round)) == before
    jobs.resume(ready.context, ANYBODY, job_id)
    ready.finish(job_id)
    accounted(ready, job_id, 60)


def test_small_spaces_are_exhausted(ready: Stack) -> None:
    ready.fleet.points = 5
    job_id = ready.submit(budget={"trials": 1000})
    ready.finish(job_id)
    body = jobs.show(ready.context, ANYBODY, job_id)
    assert (body.state, body.stop_reason) == (JobState.SUCCEEDED, "exhausted")
    accounted(ready, job_id, 15)


def test_evaluation_carries_champions_and_references(ready: Stack) -> None:
    job_id = ready.submit()
    checks: list[EvaluateModel] = []

    def look(sent: Sent) -> list[Sent]:
        if isinstance(sent.message, EvaluateModel):
            checks.append(sent.message)
        return [sent]

    ready.finish(job_id, look)
    check = checks[0]
    assert check.params is not None
    assert check.params.inline is None
    assert check.params.url is not None
    assert f"/v1/blobs/{check.params.sha256}?expires=" in check.params.url
    assert {item.workload for item in check.records} == {task.workload_hash for task in ready.rows(JobTask)}
    assert check.module.unpack() == b"{}"


def test_without_verification_there_is_no_check(ready: Stack) -> None:
    job_id = ready.submit(verify=False)
    ready.finish(job_id)
    assert ready.state(job_id) is JobState.SUCCEEDED
    assert not ready.rows(Evaluation)
    assert jobs.show(ready.context, ANYBODY, job_id).latency.source == "estimate"
