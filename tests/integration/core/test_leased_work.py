from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import core_flow
import pytest
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery import signals

from db.models import Model
from db.transactions import work
from tunesmith.errors import UnsupportedOperator
from tunesmith.messages import DeviceReport, IngestModel
from tunesmith.states import ModelState
from workers.core import lost_work
from workers.core.context import Context
from workers.core.leased import Lease, LeaseLost, run_leased
from workers.core.tasks import CoreTask, perform

pytestmark = pytest.mark.parallel

TIMEOUT = 0.3


@pytest.fixture
def context(tmp_path: Path, sqlite_url: str) -> Iterator[Context]:
    context = core_flow.core_context(tmp_path, sqlite_url)
    core_flow.add_operator(context)
    yield context
    context.sessions.kw["bind"].dispose()


def model(context: Context) -> Model:
    with context.readers() as session:
        return session.get_one(Model, "m1")


def test_work_moves_its_deadline_while_it_goes_on(context: Context) -> None:
    seen = []

    def task(lease: Lease) -> None:
        first = model(context).deadline
        pause = threading.Event()
        for _ in range(100):
            pause.wait(0.05)
            if model(context).deadline > first:
                seen.append(model(context).worker)
                return

    assert run_leased(context, Model, "m1", 1, TIMEOUT, task)
    assert seen == [context.worker]


def test_work_that_was_taken_away_learns_it_and_writes_nothing(context: Context) -> None:
    signalled = threading.Event()

    def task(lease: Lease) -> None:
        with context.sessions.begin() as session:
            work.retry(session, session.get_one(Model, "m1"), 3, "fell silent")
        if lease.lost.wait(20):
            signalled.set()
        with pytest.raises(LeaseLost):
            lease.check()
        with context.sessions.begin() as session:
            lease.hold(session)

    assert run_leased(context, Model, "m1", 1, TIMEOUT, task)
    assert signalled.is_set()
    assert (model(context).state, model(context).attempt, model(context).error) == (ModelState.IMPORTING, 2, None)


def test_a_typed_error_ends_the_work_at_once(context: Context) -> None:
    def task(lease: Lease) -> None:
        raise UnsupportedOperator("TVM lacks Foo (2 times)", operators={"Foo": 2})

    assert run_leased(context, Model, "m1", 1, 30, task)
    row = model(context)
    assert (row.state, row.error["code"], row.error["operators"]) == (
        ModelState.REJECTED,
        "unsupported_operator",
        {"Foo": 2},
    )


def test_anything_else_is_tried_again_until_the_attempts_are_used_up(context: Context) -> None:
    def task(lease: Lease) -> None:
        raise RuntimeError("boom")

    for attempt in (1, 2, 3):
        assert model(context).state is ModelState.IMPORTING
        assert run_leased(context, Model, "m1", attempt, 30, task)
    row = model(context)
    assert (row.state, row.error["code"], row.error["detail"]) == (
        ModelState.REJECTED,
        "internal_error",
        "RuntimeError: boom",
    )
    assert not run_leased(context, Model, "m1", 4, 30, task)


def test_work_whose_code_does_not_load_fails_with_the_reason(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_install.py").write_text("raise OSError('libsomething.so.1: cannot open shared object file')")
    monkeypatch.syspath_prepend(str(tmp_path))
    ingest = CoreTask(IngestModel, "ingest", "broken_install", "run", 10)
    for attempt in range(1, context.settings.max_attempts + 1):
        assert model(context).state is ModelState.IMPORTING
        perform(ingest, context, IngestModel(model_id="m1", attempt=attempt))
    row = model(context)
    assert row.state is ModelState.REJECTED
    assert "libsomething.so.1" in row.error["detail"]
    report = DeviceReport(worker="w", name="d", host="h", device_classes=[], target={}, cores=1)
    with pytest.raises(OSError, match="libsomething"):
        perform(CoreTask(DeviceReport, "record", "broken_install", "run", 10), context, report)


class Named(NamedTuple):
    """A task, as far as a signal's receiver looks at it."""

    name: str


def loss(context: Context, attempt: int = 1) -> lost_work.Loss:
    body = IngestModel(model_id="m1", attempt=attempt).model_dump(mode="json")
    return lost_work.Loss(
        url=context.settings.url(), max_attempts=3, task=IngestModel.task, body=body, reason="SIGKILL"
    )


def claimed_by(context: Context, worker: str | None, attempt: int = 1) -> None:
    with context.sessions.begin() as session:
        row = session.get_one(Model, "m1")
        row.worker, row.attempt, row.dispatched = worker, attempt, attempt


def ended_process() -> str:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return f"{socket.gethostname()}-{child.pid}-abcdef"


def test_work_of_a_process_that_ended_is_due_again(context: Context) -> None:
    claimed_by(context, ended_process())
    assert lost_work.give_back(loss(context))
    row = model(context)
    assert (row.attempt, row.dispatched, row.worker) == (2, 1, None)
    assert not lost_work.give_back(loss(context)), "it is another attempt's now"


def test_attempts_are_counted_when_processes_are_lost(context: Context) -> None:
    claimed_by(context, ended_process(), attempt=3)
    assert lost_work.give_back(loss(context, attempt=3))
    row = model(context)
    assert row.state is ModelState.REJECTED
    assert "SIGKILL" in row.error["detail"]


@pytest.mark.parametrize(
    "worker",
    [f"{socket.gethostname()}-{os.getpid()}-abcdef", "another-host-1-abcdef", "odd"],
    ids=["of this process", "of another host", "odd"],
)
def test_work_that_somebody_else_does_is_left_to_them(context: Context, worker: str) -> None:
    claimed_by(context, worker)
    assert not lost_work.give_back(loss(context))
    assert model(context).attempt == 1


def test_only_lost_processes_are_told_of(context: Context) -> None:
    signalled: list[lost_work.Loss] = []
    lost_work.watch(context.settings)  # as another worker of this process would
    lost_work.watch(context.settings, signalled.append)
    try:
        sender = Named(IngestModel.task)
        for error in (WorkerLostError("exited: SIGKILL"), TimeLimitExceeded(5), ValueError("an ordinary failure")):
            signals.task_failure.send(sender=sender, exception=error, args=[{"model_id": "m1", "attempt": 1}])
        report = Named(DeviceReport.task)
        signals.task_failure.send(sender=report, exception=WorkerLostError("x"), args=[{}])
    finally:
        signals.task_failure.disconnect(dispatch_uid=lost_work.RECEIVER)
    assert [each.task for each in signalled] == [IngestModel.task] * 2
    assert signalled[0].url == context.settings.url()
