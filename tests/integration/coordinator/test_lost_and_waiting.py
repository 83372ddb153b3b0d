"""What the reconciler sends again, and what it leaves to wait; a worker that another one stands in for at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from coordinator_stack import Stack
from fake_fleet import WORKER, Folder, Sent

from db.models import Batch, Evaluation, Event, Job, Model, Record, Round
from db.transactions import results, unreadable
from tunesmith.messages import MeasureBatch, Unreadable
from tunesmith.states import JobState, ModelState

pytestmark = pytest.mark.parallel


@pytest.fixture
def stack(tmp_path: Path, database_url: str) -> Iterator[Stack]:
    stack = Stack(Folder(tmp_path, database_url))
    yield stack
    stack.close()


def at_first_batch(stack: Stack) -> tuple[str, Sent]:
    """A job whose first batch is in its queue, and that message."""
    stack.fleet.register_device()
    job_id = stack.submit(budget={"trials": 60})
    found: list[Sent] = []

    def deliver(sent: Sent) -> list[Sent]:
        if isinstance(sent.message, MeasureBatch) and not found:
            found.append(sent)
            return []
        return [sent]

    stack.run(lambda: bool(found), deliver)
    return job_id, found[0]


def batches(stack: Stack) -> list[int]:
    return [sent.message.batch_id for sent in stack.broker.sent if isinstance(sent.message, MeasureBatch)]


def test_what_waits_in_its_queue_is_not_sent_again(stack: Stack) -> None:
    _, sent = at_first_batch(stack)
    stack.broker.sent.append(sent)
    for _ in range(3):
        stack.expire()
        stack.loop.step()
    assert batches(stack).count(sent.message.batch_id) == 1
    stack.broker.take()
    stack.expire()
    stack.loop.step()
    assert batches(stack).count(sent.message.batch_id) == 1, "what was lost is sent again"


def test_a_worker_that_another_replaces_at_once_costs_an_attempt_and_no_result(stack: Stack) -> None:
    job_id, sent = at_first_batch(stack)
    batch_id = sent.message.batch_id
    with stack.context.sessions.begin() as session:
        results.record_heartbeat(session, session.get_one(Batch, batch_id), "dead-worker", 1)
    stack.fleet.register_device()  # under the same name, before anybody missed the other
    stack.loop.step()
    stack.expire()  # the dead worker shows no heartbeat any more
    stack.finish(job_id)
    stack.fleet.do(sent.message)  # its message comes late, and changes nothing
    (job,) = stack.rows(Job)
    assert (job.state, job.stop_reason) == (JobState.SUCCEEDED, "trials")
    records = stack.rows(Record)
    assert sum(row.sketch_hash is not None for row in records) == 60
    assert len({(row.batch_id, row.index) for row in records}) == len(records)
    assert {row.id: row.attempt for row in stack.rows(Batch)}[batch_id] == 2


def test_a_batch_that_one_worker_cannot_read_goes_to_another(stack: Stack) -> None:
    job_id, sent = at_first_batch(stack)
    found = Unreadable(message=MeasureBatch.task, row=str(sent.message.batch_id), attempt=1, speaks=1, reason="version")
    for _ in range(2):  # the second says nothing new
        with stack.context.sessions.begin() as session:
            unreadable.note(session, found, "old-worker", 3)
    stack.loop.step()
    assert sent.message.batch_id in batches(stack)
    (batch,) = [row for row in stack.rows(Batch) if row.id == sent.message.batch_id]
    assert (batch.attempt, batch.worker) == (1, None)
    event = stack.rows_of(sa.select(Event).where(Event.kind == "message_unreadable"))[0]
    assert (event.job_id, event.data["worker"], event.data["speaks"]) == (job_id, "old-worker", 1)
    stack.finish(job_id)
    assert WORKER in {row.worker for row in stack.rows(Batch)}


def test_a_model_that_no_worker_can_read_is_rejected_with_the_reason(stack: Stack) -> None:
    stack.submit()
    for attempt in (1, 2, 3):
        stack.loop.step()
        (sent,) = stack.broker.take()
        found = Unreadable(message=sent.message.task, row=sent.message.model_id, attempt=attempt, reason="it is new")
        with stack.context.sessions.begin() as session:
            unreadable.note(session, found, "old-worker", 3)
    stack.loop.step()
    (model,) = stack.rows(Model)
    assert model.state is ModelState.REJECTED
    assert "it is new; all parts of the service have to be of one version" in model.error["detail"]


def test_a_job_without_trials_measures_nothing_and_needs_no_device(stack: Stack) -> None:
    job_id = stack.submit(budget={"trials": 0})
    stack.finish(job_id)
    assert stack.state(job_id) is JobState.SUCCEEDED
    assert not stack.rows(Evaluation)
    assert not stack.rows(Round)
