"""Records that are believed no longer: their champions, and tasks that adopted them, get the next best."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.chunks import chunks
from db.models import Job, JobTask, Record
from db.queries import records as record_rows
from db.transactions import events
from db.transactions.champions import revoke, revoke_bests
from tunesmith.events import RecordsRevoked
from tunesmith.types import CacheState


@dataclass(frozen=True)
class Revoked:
    """What changed: records, champions, and tasks of jobs whose best or whose baseline was one of the records."""

    records: int
    champions: int
    tasks: int


def revoke_worker(session: Session, worker_id: str, reason: str) -> Revoked:
    """Believe nothing that an enrolled worker ever reported."""
    query = sa.select(Record.id).where(Record.worker_id == worker_id, Record.revoked_at.is_(None))
    return revoke_records(session, session.scalars(query).all(), reason)


def revoke_records(session: Session, ids: Collection[int], reason: str) -> Revoked:
    """Mark records as revoked, and let everything that stands on them stand on the next best."""
    now, found = clock.now(session), sorted(set(ids))
    for part in chunks(found):
        session.execute(sa.update(Record).where(Record.id.in_(part)).values(revoked_at=now))
    session.expire_all()
    champions = sum(revoke(session, part) for part in chunks(found))
    tasks = sum(revoke_bests(session, part, reason) + _replace_baselines(session, part) for part in chunks(found))
    events.append(session, RecordsRevoked(len(found), champions, tasks, reason))
    return Revoked(len(found), champions, tasks)


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
            task.untuned_seconds = record_rows.latest_baseline(
                session, record.workload_hash, record.target_hash, CacheState(record.cache)
            )
            changed += 1
    session.flush()
    return changed
