"""Records that are believed no longer: what they led, and what inherited it, goes to the next best that still is."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Job, JobTask, Record, Schedule
from db.repositories import events, models, records, schedules
from tunesmith.types import CacheState, cache_state

CHUNK = 500
"""Ids in one statement."""


@dataclass(frozen=True)
class Revoked:
    """What changed: records, champions, and tasks of jobs whose best or whose baseline was one of the records."""

    records: int
    champions: int
    tasks: int


def of_worker(session: Session, worker_id: str, reason: str) -> Revoked:
    """Believe nothing that an enrolled worker ever reported."""
    query = sa.select(Record.id).where(Record.worker_id == worker_id, Record.revoked_at.is_(None))
    return of_records(session, session.scalars(query).all(), reason)


def of_records(session: Session, ids: Collection[int], reason: str) -> Revoked:
    """Mark records as revoked, and let everything that stands on them stand on the next best."""
    now, found = clock.now(session), sorted(set(ids))
    for part in _parts(found):
        session.execute(sa.update(Record).where(Record.id.in_(part)).values(revoked_at=now))
    session.expire_all()
    champions = sum(_replace_champions(session, part) for part in _parts(found))
    tasks = sum(_replace_bests(session, part, reason) + _replace_baselines(session, part) for part in _parts(found))
    events.append(session, "records_revoked", None, records=len(found), champions=champions, tasks=tasks, reason=reason)
    return Revoked(len(found), champions, tasks)


def _parts(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (ids[at : at + CHUNK] for at in range(0, len(ids), CHUNK))


def _replace_champions(session: Session, ids: Sequence[int]) -> int:
    rows = session.scalars(sa.select(Schedule).where(Schedule.record_id.in_(ids)).with_for_update()).all()
    for row in rows:
        best = _next_best(session, row.workload_hash, row.target_hash, CacheState(row.cache), simulated=row.simulated)
        if best is None:
            session.delete(row)
            continue
        row.record_id, row.latency, row.updated_at = best.id, _latency(best), clock.now(session)
        row.trace = best.trace or []
    session.flush()
    return len(rows)


def _next_best(session: Session, workload: str, target: str, cache: CacheState, *, simulated: bool) -> Record | None:
    """The fastest confirmed winner whose trace is kept, of one state of the caches and one kind of device."""
    query = sa.select(Record).where(
        Record.workload_hash == workload,
        Record.target_hash == target,
        Record.trace.is_not(None),
        Record.revoked_at.is_(None),
        Record.failure.is_(None),
    )
    found = [
        row
        for row in session.scalars(query)
        if cache_state(row.environment) is cache and bool(row.environment.get("simulated")) is simulated
    ]
    return min(found, key=_latency, default=None)


def _latency(row: Record) -> float:
    """Seconds that the confirmation found."""
    samples = (row.confirmation or {}).get("samples") or row.samples
    return float(statistics.median(samples))


def _replace_bests(session: Session, ids: Sequence[int], reason: str) -> int:
    query = sa.select(JobTask).where(JobTask.best_record_id.in_(ids)).order_by(JobTask.id)
    rows = session.scalars(query.with_for_update().execution_options(populate_existing=True)).all()
    for task in rows:
        before, job = task.best_seconds, session.get_one(Job, task.job_id)
        offers = [(_latency(row), row.id) for row in _winners(session, task)]
        champion = _champion_for(session, job, task)
        if champion is not None:
            offers.append((champion.latency, champion.record_id))
        task.best_seconds, task.best_record_id = min(offers, default=(None, None))
        if task.known_seconds is not None:
            task.known_seconds = champion.latency if champion is not None else None
        events.append(
            session,
            "champion_revoked",
            task.job_id,
            task=task.id,
            name=task.name,
            before=before,
            seconds=task.best_seconds,
            record=task.best_record_id,
            reason=reason,
        )
    session.flush()
    return len(rows)


def _winners(session: Session, task: JobTask) -> list[Record]:
    """The confirmed winners of a task's own measurements that are still believed."""
    query = sa.select(Record).where(
        Record.job_task_id == task.id,
        Record.revoked_at.is_(None),
        Record.failure.is_(None),
        Record.confirmation.is_not(None),
    )
    return [row for row in session.scalars(query) if (row.confirmation or {}).get("won")]


def _champion_for(session: Session, job: Job, task: JobTask) -> Schedule | None:
    """What the task may inherit now; see ``inheritance.inherit`` for what counts."""
    if not job.warm_start or job.target_hash is None:
        return None
    cache = models.caches_of(session, job).get(task.workload_hash, CacheState.WARM)
    row = schedules.get(session, task.workload_hash, job.target_hash, simulated=job.simulated, cache=cache)
    if row is None or session.get_one(Record, row.record_id).sketch_hash not in task.sketches:
        return None
    return row


def _replace_baselines(session: Session, ids: Sequence[int]) -> int:
    """Tasks whose default schedule's latency came of a revoked record take the one that is still believed."""
    gone = session.scalars(
        sa.select(Record).where(Record.id.in_(ids), Record.sketch_hash.is_(None), Record.latency.is_not(None))
    ).all()
    changed = 0
    for record in gone:
        query = (
            sa.select(JobTask)
            .join(Job, Job.id == JobTask.job_id)
            .where(
                JobTask.workload_hash == record.workload_hash,
                Job.target_hash == record.target_hash,
                JobTask.untuned_seconds == record.latency,
            )
        )
        for task in session.scalars(query.with_for_update(of=JobTask)):
            latest = records.latest_baseline(
                session, record.workload_hash, record.target_hash, cache_state(record.environment)
            )
            task.untuned_seconds = latest.latency if latest is not None else None
            changed += 1
    session.flush()
    return changed
