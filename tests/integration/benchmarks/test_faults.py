"""``tunesmith bench faults``: what it counts in the database, its invented devices and its table."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from redis_process import redis_server
from rows import add_batch, add_job, add_task
from typer.testing import CliRunner

from benchmarks.commands import app
from benchmarks.faults import figures
from benchmarks.faults.cluster import TARGET
from benchmarks.faults.devices import devices
from benchmarks.faults.trial import Trial, count, surplus
from db.engine import Sessions
from db.models import Batch, JobTask, Record
from db.transactions import results
from services.coordinator.broker import CeleryPublisher
from tunesmith.messages import RECORD, MeasureBatch, MeasureLimits, Payload, WireCandidate, WireResult, measure_queue
from tunesmith.signing import Signer

pytestmark = pytest.mark.servers


def test_what_is_lost_and_doubled_is_seen(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_job(session)
        task = add_task(session)
        first, second = (add_batch(session, task, number) for number in (1, 2))
        start = first.created_at
        for batch, size in ((first, 4), (second, 3)):
            results.apply(session, batch, [WireResult(index=i, samples=[0.1]) for i in range(size)], {})
        second.attempt = 2
    moments = tuple(start + dt.timedelta(seconds=seconds) for seconds in (0, 10, 20, 30))
    with sessions() as session:
        known = surplus(session)
        found = count(session, moments, known)
        assert (found.before, found.during, found.after, found.first) == (0.7, 0.0, 0.0, None)
        assert (found.lost, found.doubled, found.abandoned, found.retried) == (1, 0, 0, 1)
    with sessions.begin() as session:
        session.scalars(sa.select(JobTask)).one().trials += 2
    with sessions() as session:
        assert count(session, moments, known).doubled == 2
        assert len(session.scalars(sa.select(Batch)).all()) == 2
        assert len(session.scalars(sa.select(Record)).all()) == 7


def test_devices_answer_a_batch(tmp_path: Path) -> None:
    with redis_server(tmp_path) as broker:
        publisher = CeleryPublisher(broker)
        batch = MeasureBatch(
            batch_id=1,
            attempt=1,
            job_id="j",
            target=TARGET.to_json(),
            limits=MeasureLimits(),
            workload="w",
            module=Payload(),
            sketches={},
            candidates=[WireCandidate(index=i, sketch="s") for i in range(3)],
        )
        queue = measure_queue(TARGET.device_class)
        with devices(1, broker, 0.0, Signer.fresh()):
            assert publisher.send(batch, queue=queue, task_id="a")
            end = time.monotonic() + 20
            while (publisher.depths([RECORD])[RECORD] or 0) < 2:  # the device, and the batch
                assert time.monotonic() < end
                time.sleep(0.02)
        assert publisher.depths([queue]) == {queue: 0}
        publisher.close()


def test_the_median_run_counts_and_losses_are_added_up() -> None:
    trials = [
        Trial(before=10.0, during=1.0, after=after, first=0.5, retried=1, lost=lost, doubled=0, abandoned=0)
        for after, lost in ((9.0, 0), (10.0, 2), (8.0, 1))
    ]
    report = figures.faults({"pg_backend_kill": trials}, {})
    (row,) = report.rows
    assert row == ("pg_backend_kill", 10.0, 1.0, 9.0, 0.9, "0.90, 1.00, 0.80", 0.5, 3, 3, 0, 0)


def test_an_unknown_scenario_is_refused() -> None:
    found = CliRunner().invoke(app, ["faults", "--scenario", "flood"])
    assert "no scenario 'flood'" in str(found.exception)
