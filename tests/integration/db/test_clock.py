"""Deadlines, heartbeats and budgets when the database's clock is put forward or back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from coordinator_stack import Stack
from fake_fleet import Folder, Sent
from rows import add_batch, add_job, add_task

from db import clock
from db.engine import Sessions
from db.models import Batch, Device, Event, Job, Record
from db.queries import devices
from db.transactions import work
from services.coordinator.scheduling.clock_watch import ClockReading, jump
from tunesmith.messages import MeasureBatch
from tunesmith.states import JobState, WorkState

pytestmark = pytest.mark.parallel
HOUR = 3600.0


class ShiftedClock:
    """The database's clock, put forward by ``seconds``, or back."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, session) -> dt.datetime:
        return clock.database_time(session) + dt.timedelta(seconds=self.seconds)


@pytest.fixture
def shifted() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def stack(tmp_path: Path, database_url: str, shifted: ShiftedClock) -> Iterator[Stack]:
    stack = Stack(Folder(tmp_path, database_url))
    for sessions in (stack.context.sessions, stack.context.readers):
        clock.give(sessions, shifted)
    yield stack
    stack.close()


def test_time_is_the_databases(sessions: Sessions) -> None:
    with sessions.begin() as session:
        before = clock.now(session)
        if session.get_bind().dialect.name == "postgresql":
            assert before <= session.scalar(sa.select(sa.func.clock_timestamp())) <= clock.now(session)
        assert before.tzinfo is dt.timezone.utc
        assert before <= clock.now(session)


def test_a_claim_goes_by_the_sessions_clock_and_by_no_workers(sessions: Sessions, shifted: ShiftedClock) -> None:
    clock.give(sessions, shifted)
    shifted.seconds = -HOUR
    with sessions.begin() as session:
        add_job(session)
        batch = add_batch(session, add_task(session))
        work.mark_dispatched(session, batch, 10)
        assert work.claim(session, Batch, batch.id, 1, "w", 20) is not None
        left = batch.deadline - clock.database_time(session)
    assert dt.timedelta(seconds=-HOUR + 15) < left < dt.timedelta(seconds=-HOUR + 21)


def test_a_deadline_beyond_the_longest_timeout_has_passed(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_job(session)
        batch, now = add_batch(session, add_task(session)), clock.now(session)
        work.mark_dispatched(session, batch, 100, now)
        assert work.overdue(session, Batch, 100, now) == []
        assert work.overdue(session, Batch, 99, now) == [batch]


def test_a_device_that_was_seen_in_the_future_is_not_live(stack: Stack, shifted: ShiftedClock) -> None:
    stack.fleet.register_device()
    with stack.context.reading() as session:
        assert len(devices.live(session, 15.0)) == 1
        now = clock.now(session)
        assert devices.live(session, 15.0, now - dt.timedelta(seconds=HOUR)) == []
        assert not devices.is_live(session.query(Device).one(), 15.0, now - dt.timedelta(seconds=HOUR))


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_a_job_of_seconds_neither_ends_at_once_nor_hangs(stack: Stack, shifted: ShiftedClock, seconds: float) -> None:
    stack.fleet.register_device()
    job_id = stack.submit(budget={"seconds": 900.0, "trials": 60})
    killed: list[int] = []

    def deliver(sent: Sent) -> list[Sent]:
        """The worker that takes the second batch dies with it, and the clock jumps meanwhile."""
        message = sent.message
        if not isinstance(message, MeasureBatch) or killed or message.batch_id < 2:
            return [sent]
        killed.append(message.batch_id)
        with stack.context.sessions.begin() as session:
            assert work.claim(session, Batch, message.batch_id, message.attempt, "dead", 45.0) is not None
        shifted.seconds = seconds
        return []

    stack.run(lambda: bool(killed), deliver)
    stack.loop.step()
    (batch,) = [row for row in stack.rows(Batch) if row.id == killed[0]]
    assert (batch.attempt, batch.state) == (1, WorkState.RUNNING), "the jump cost the worker its claim"
    assert stack.state(job_id) is JobState.RUNNING, "the jump ended the job"
    shifted.seconds += 46.0  # what passes until the dead worker's claim ends
    stack.fleet.register_device()
    stack.restart()  # that time has passed and is no jump
    stack.finish(job_id)
    (job,) = stack.rows(Job)
    assert (job.state, job.stop_reason) == (JobState.SUCCEEDED, "trials")
    records = stack.rows(Record)
    assert sum(row.sketch_hash is not None for row in records) == 60
    assert len({(row.batch_id, row.index) for row in records}) == len(records)
    assert {row.id: row.attempt for row in stack.rows(Batch)}[killed[0]] == 2
    (event,) = stack.rows_of(sa.select(Event).where(Event.kind == "clock_moved"))
    assert abs(event.data["seconds"] - seconds) < 30


def test_a_jump_that_nobody_saw_costs_an_attempt_and_no_hour(stack: Stack, shifted: ShiftedClock) -> None:
    stack.fleet.register_device()
    job_id = stack.submit(budget={"trials": 60})
    lost: list[int] = []

    def deliver(sent: Sent) -> list[Sent]:
        message = sent.message
        if not isinstance(message, MeasureBatch) or lost:
            return [sent]
        lost.append(message.batch_id)
        with stack.context.sessions.begin() as session:
            work.claim(session, Batch, message.batch_id, message.attempt, "dead", 45.0)
        return []

    stack.run(lambda: bool(lost), deliver)
    shifted.seconds = -HOUR
    stack.restart()
    stack.fleet.register_device()
    stack.finish(job_id)
    assert {row.id: row.attempt for row in stack.rows(Batch)}[lost[0]] == 2
    assert sum(row.sketch_hash is not None for row in stack.rows(Record)) == 60


@pytest.mark.parametrize(
    ("there", "before", "after", "expected"),
    [
        (101.0, 1.0, 1.0, 0.0),
        (3701.0, 1.0, 1.0, 3600.0),
        (-3499.0, 1.0, 1.0, -3600.0),
        (131.0, 1.0, 31.0, 0.0),
        (101.0, 1.0, 31.0, 0.0),
    ],
)
def test_a_slow_answer_is_no_jump(there: float, before: float, after: float, expected: float) -> None:
    assert jump(ClockReading(100.0, 0.0, 0.0, 0), ClockReading(there, before, after, 0)) == pytest.approx(expected)
