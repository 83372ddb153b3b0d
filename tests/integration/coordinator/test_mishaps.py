"""What must not leave a job hanging: blobs that are gone, jobs that are deleted meanwhile, transitions that race."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from coordinator_stack import Stack
from fake_fleet import Folder, Sent

from db.models import Batch, Evaluation, Job, Model, Round, WorkloadRow
from db.transactions import results
from db.transactions.transitions import transition
from services.coordinator.auth import ANYBODY
from services.coordinator.routers.progress import job_tasks
from services.coordinator.scheduling import actions as act
from services.coordinator.scheduling.apply import apply
from services.coordinator.scheduling.history import Histories
from services.coordinator.scheduling.load import load
from services.coordinator.usecases import curve, jobs
from tunesmith.messages import MeasureBatch, WireResult
from tunesmith.states import JobState, RoundState, WorkState, is_final
from tunesmith.types import FailureKind

pytestmark = [pytest.mark.parallel, pytest.mark.both_databases]


@pytest.fixture
def ready(tmp_path: Path, database_url: str) -> Iterator[Stack]:
    made = Stack(Folder(tmp_path, database_url))
    made.fleet.register_device()
    yield made
    made.close()


@pytest.fixture
def light(tmp_path: Path, sqlite_url: str) -> Iterator[Stack]:
    """On SQLite alone, for what leaves nothing to the database."""
    made = Stack(Folder(tmp_path, sqlite_url))
    made.fleet.register_device()
    yield made
    made.close()


def test_work_whose_blob_is_gone_fails_with_the_reason(light: Stack) -> None:
    job_id = light.submit(budget={"trials": 30})
    light.run(lambda: light.state(job_id) is JobState.RUNNING)
    for row in light.rows_of(sa.select(WorkloadRow)):
        light.context.blobs.path(row.module_blob).unlink(missing_ok=True)
    light.finish(job_id)
    body = jobs.show(light.context, ANYBODY, job_id)
    assert (body.state, body.error["code"]) == (JobState.FAILED, "measurement_failed")
    assert body.progress.failures == body.progress.trials == 30


def test_an_evaluation_whose_blob_is_gone_fails_its_job(light: Stack) -> None:
    job_id = light.submit(budget={"trials": 30})
    light.run(lambda: light.state(job_id) is JobState.RUNNING)
    for row in light.rows(Model):
        light.context.blobs.path(row.params_blob).unlink()
    light.finish(job_id)
    assert light.state(job_id) is JobState.FAILED
    assert [row.state for row in light.rows(Evaluation)] == [WorkState.FAILED]
    assert "no blob" in jobs.show(light.context, ANYBODY, job_id).error["detail"]


def test_work_that_is_deleted_before_it_is_sent_stops_nothing_else(ready: Stack) -> None:
    job_id = ready.submit()
    ready.run(lambda: any(row.state is RoundState.MEASURING for row in ready.rows(Round)))
    dispatcher = ready.loop.dispatcher
    ready.expire()
    with ready.context.sessions.begin() as session:
        ready.loop.reconciler.run(session, frozenset())
    with ready.context.sessions.begin() as session:
        marked = dispatcher.mark(session)
    with ready.context.sessions.begin() as session:
        session.execute(sa.delete(Job).where(Job.id == job_id))
    with ready.context.reading() as session:
        messages, broken = dispatcher.compose(session, marked)
    assert marked
    assert not broken
    assert all(getattr(item.message, "job_id", None) != job_id for item in messages)


def test_a_job_is_cancelled_only_when_nothing_of_it_is_under_way(ready: Stack) -> None:
    """As when a worker finishes a round between the plan and its cancellation, which is then left alone."""
    job_id = ready.submit()
    ready.run(lambda: any(row.state is RoundState.MEASURING for row in ready.rows(Round)))
    jobs.cancel(ready.context, ANYBODY, job_id)
    with ready.context.sessions.begin() as session:
        apply(session, [act.MoveJob(job_id, JobState.CANCELLING, JobState.CANCELLED)])
    assert ready.state(job_id) is JobState.CANCELLING
    ready.finish(job_id)
    assert ready.state(job_id) is JobState.CANCELLED
    assert all(is_final(row.state) for row in ready.rows(Round))


def test_a_cancellation_waits_for_who_moves_the_job(ready: Stack) -> None:
    job_id = ready.submit()
    ready.run(lambda: ready.state(job_id) is JobState.RUNNING)
    with ThreadPoolExecutor(1) as threads:
        with ready.context.sessions.begin() as session:
            transition(session, session.get_one(Job, job_id), JobState.FINISHING)
            cancelled = threads.submit(jobs.cancel, ready.context, ANYBODY, job_id)
            wait([cancelled], timeout=0.3)
        assert cancelled.result(30).state is JobState.CANCELLING
    ready.finish(job_id)
    assert ready.state(job_id) is JobState.CANCELLED


def test_a_task_that_never_runs_does_not_hide_the_latency_of_the_others(light: Stack) -> None:
    job_id = light.submit(budget={"trials": 30}, verify=False)
    seen = []

    def fail_one(sent: Sent) -> list[Sent]:
        body = jobs.show(light.context, ANYBODY, job_id)
        seen.append((body.progress.tasks_measured, body.latency.current))
        message = sent.message
        if not isinstance(message, MeasureBatch) or not message.workload.endswith("-w0"):
            return [sent]
        failed = [
            WireResult(index=item.index, failure=FailureKind.BUILD_ERROR, message="no") for item in message.candidates
        ]
        with light.context.sessions.begin() as session:
            results.apply(session, session.get_one(Batch, message.batch_id), failed, {})
        return []

    light.finish(job_id, fail_one)
    body = jobs.show(light.context, ANYBODY, job_id)
    tasks = job_tasks(light.context, ANYBODY, job_id).items
    assert [task.best_latency is None for task in tasks] == [True, False, False]
    assert body.state is JobState.SUCCEEDED
    assert body.progress.tasks_measured == 3
    assert body.latency.current == pytest.approx(sum(t.weight * t.best_latency for t in tasks[1:]))
    assert all(current is None for measured, current in seen if measured < 3)
    found = curve.curve(light.context, ANYBODY, job_id)
    assert found.tasks_measured == found.tasks == 3
    assert found.untuned == body.latency.untuned
    assert found.points[-1].latency == pytest.approx(body.latency.current)


def test_results_that_come_in_while_the_plan_is_made_are_never_missed(ready: Stack) -> None:
    """A result that arrives between two statements of a look may be done and under way in it, never neither."""
    job_id = ready.submit(budget={"trials": 80})
    waiting: list[Sent] = []

    def hold(sent: Sent) -> list[Sent]:
        measure = isinstance(sent.message, MeasureBatch)
        waiting.extend([sent] if measure else [])
        return [] if measure else [sent]

    ready.run(lambda: len(waiting) > 2, hold)
    sizes = sum(row.size for row in ready.rows(Round))
    seen: list[int] = []

    def one_more(*_: Any) -> None:
        if waiting:
            ready.fleet.do(waiting.pop().message)

    while waiting:
        with ready.context.reading() as session:
            connection = session.connection()
            sa.event.listen(connection, "after_cursor_execute", one_more)
            (job,) = load(session, Histories(), 15.0).jobs
            sa.event.remove(connection, "after_cursor_execute", one_more)
        seen.append(job.trials + job.trials_in_flight)
    assert min(seen) >= sizes
    with ready.context.reading() as session:
        (job,) = load(session, Histories(), 15.0).jobs
    assert job.trials + job.trials_in_flight == sizes
    ready.finish(job_id)
    assert jobs.show(ready.context, ANYBODY, job_id).progress.trials == 80
