"""What goes and what stays: blobs that rows name, records of jobs that are gone, events of open jobs."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from api_driver import GEMM, Api
from rows import add_model

from db.blobs import BlobStore
from db.models import Batch, Event, Job, Model, Record, Schedule, SketchRow, WorkloadRow
from db.models.base import utcnow
from services.coordinator.housekeeping import FRESH_SECONDS, HOUR, Pruned, Retention, prune
from services.coordinator.scheduling.loop import SchedulingLoop

pytestmark = pytest.mark.parallel
OLD = 40 * 24 * HOUR


def age(api: Api, seconds: float = OLD) -> None:
    """Let everything have happened so long ago."""
    past = utcnow() - dt.timedelta(seconds=seconds)
    with api.context.sessions.begin() as session:
        session.execute(sa.update(Job).where(Job.finished_at.is_not(None)).values(finished_at=past))
        session.execute(sa.update(Event).values(created_at=past))
    for sha in api.context.blobs.all():
        os.utime(api.context.blobs.path(sha), (time.time() - seconds,) * 2)


def run(api: Api, keep: Retention, dry_run: bool = False) -> Pruned:
    context = api.context
    return prune(context.sessions, context.readers, context.blobs, keep, dry_run=dry_run)


def test_a_deleted_model_frees_its_blobs_but_not_those_of_others(both: Api) -> None:
    blobs = both.context.blobs
    shared, own, fresh = (blobs.put_bytes(text) for text in (b"shared", b"own", b"fresh"))
    with both.context.sessions.begin() as session:
        add_model(session, sha256=shared, module_blob=own, params_blob=fresh)
        add_model(session, id="m2", owner="ann", sha256=shared)
    for sha in (shared, own):
        os.utime(blobs.path(sha), (time.time() - 2 * FRESH_SECONDS,) * 2)
    assert both.client.delete("/v1/models/m1").status_code == 204
    assert {sha for sha in (shared, own, fresh) if blobs.exists(sha)} == {shared, fresh}
    age(both)
    assert run(both, Retention()) == Pruned(blobs=1, bytes=5)
    assert both.client.delete("/v1/models/m2").status_code == 204
    assert list(blobs.all()) == []


def test_a_blob_that_is_stored_again_meanwhile_stays(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    gone, wanted, written = (blobs.put_bytes(text) for text in (b"gone", b"wanted", b"written"))
    for sha in (gone, wanted, written):
        os.utime(blobs.path(sha), (time.time() - OLD,) * 2)

    def named(some: set[str]) -> set[str]:
        """Nobody names any; but now an import comes and stores two of them, of which it will write rows."""
        assert some == {gone, wanted, written}
        blobs.put_bytes(b"wanted")
        with blobs.writer() as writer:
            writer.write(b"written")
        return set()

    assert blobs.prune(named, HOUR) == (1, 4)
    assert set(blobs.all()) == {wanted, written}
    with blobs.no_pruning():
        assert blobs.prune(lambda some: set(), 0.0) == (0, 0)
    assert blobs.prune(lambda some: set(), 0.0, dry_run=True) == (2, 13)
    assert blobs.prune(lambda some: set(), 0.0) == (2, 13)
    assert list(blobs.all()) == []


def test_old_jobs_go_and_their_records_stay_readable(both: Api) -> None:
    first = both.finished_job(budget={"trials": 18})
    running = both.client.post("/v1/jobs", json=GEMM).json()["id"]
    records, sketches = both.count(Record), both.count(SketchRow)
    assert run(both, Retention(job_days=30)) == Pruned(), "it ended a moment ago"
    age(both)
    assert run(both, Retention()).jobs == 0, "nothing is removed unless that is set"
    assert run(both, Retention(job_days=30), dry_run=True).jobs == 1
    assert both.count(Job) == 2
    found = run(both, Retention(job_days=30))
    assert (found.jobs, found.records) == (1, 0)
    assert both.client.get(f"/v1/jobs/{first}").status_code == 404
    assert both.client.get(f"/v1/jobs/{running}").status_code == 200
    assert (both.count(Record), both.count(SketchRow)) == (records, sketches)
    with both.context.reading() as session:
        rows = session.scalars(sa.select(Record)).all()
        assert {row.job_id for row in rows} == {None}
        for row in rows:
            workload = session.get_one(WorkloadRow, row.workload_hash)
            assert both.context.blobs.exists(workload.module_blob)
            assert row.sketch_hash is None or session.get(SketchRow, row.sketch_hash) is not None


def test_records_go_only_when_asked_for_and_champions_never(both: Api) -> None:
    both.finished_job(budget={"trials": 18})
    age(both)
    champions = both.count(Schedule)
    counted = run(both, Retention(job_days=30, records=True), dry_run=True).records
    assert counted == both.count(Record) - champions > 0
    assert run(both, Retention(job_days=30, records=True)).records == counted
    assert both.count(Record) == both.count(Schedule) == champions


def test_old_events_of_jobs_that_are_over_go(both: Api) -> None:
    first = both.finished_job(budget={"trials": 18})
    running = both.client.post("/v1/jobs", json=GEMM).json()["id"]
    age(both)
    with both.context.sessions.begin() as session:
        session.add(Event(kind="champion_adopted", job_id=first, data={}, created_at=utcnow() - dt.timedelta(days=40)))
        session.add(Event(kind="new_best", job_id=first, data={}))
    total = both.count(Event)
    counted = run(both, Retention(event_days=30), dry_run=True).events
    assert run(both, Retention(event_days=30)).events == counted
    assert both.count(Event) == total - counted
    left = [event["kind"] for event in both.client.get(f"/v1/jobs/{first}/events").json()["items"]]
    assert left == ["champion_adopted", "new_best"]
    assert both.client.get(f"/v1/jobs/{running}/events").json()["items"][0]["kind"] == "job_queued"


def test_the_coordinator_does_it_by_itself(tmp_path: Path, sqlite_url: str) -> None:
    from fake_fleet import Folder

    api = Api(Folder(tmp_path, sqlite_url), keep_job_days=30.0)
    api.finished_job(budget={"trials": 18})
    blob = api.context.blobs.put_bytes(b"of nobody")
    age(api)
    SchedulingLoop(api.context).step()
    assert (api.count(Job), api.count(Batch)) == (0, 0)
    assert api.count(Record) > 0
    assert not api.context.blobs.exists(blob)
    assert api.count(Model) == 1
    api.close()
