"""Trials, their sketches, and their programs as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Batch, JobTask, Listing, Record, SketchRow, TargetRow, WorkloadRow
from db.queries import sketches
from tunesmith.targets import Target


@dataclass(frozen=True)
class ListingSubject:
    """What a program is made from again; ``body`` is None for the default schedule."""

    module_blob: str
    target: Target
    body: dict[str, Any] | None
    decisions: list[Any]


@dataclass(frozen=True)
class TrialParts:
    """A trial with what stands around it; ``batch`` is None once its job's batches are gone."""

    record: Record
    task: JobTask | None
    batch: Batch | None
    sketch: SketchRow | None
    flops: float


def trial(session: Session, job_id: str, trial_id: int) -> TrialParts | None:
    """A job's trial; None where the job has no such one."""
    record = session.scalar(sa.select(Record).where(Record.id == trial_id, Record.job_id == job_id))
    if record is None:
        return None
    return TrialParts(
        record,
        session.get(JobTask, record.job_task_id) if record.job_task_id is not None else None,
        session.get(Batch, record.batch_id) if record.batch_id is not None else None,
        session.get(SketchRow, record.sketch_hash) if record.sketch_hash is not None else None,
        session.get_one(WorkloadRow, record.workload_hash).flops,
    )


def latencies_of_batch(session: Session, batch_id: int) -> dict[int, float]:
    """Latency in seconds by index, of the candidates of a batch that ran."""
    query = sa.select(Record.index, Record.latency).where(Record.batch_id == batch_id, Record.latency.is_not(None))
    return {index: latency for index, latency in session.execute(query).all() if latency is not None}


def of_record(session: Session, record_id: int) -> Listing | None:
    """The listing of a record; None before anybody asked for it."""
    return session.scalar(sa.select(Listing).where(Listing.record_id == record_id))


def subject(session: Session, listing_id: int) -> ListingSubject:
    """What to write. Raises NoResultFound where the record is gone."""
    record = session.get_one(Record, session.get_one(Listing, listing_id).record_id)
    workload = session.get_one(WorkloadRow, record.workload_hash)
    found = sketches.get(session, [record.sketch_hash]) if record.sketch_hash is not None else {}
    body = found[record.sketch_hash] if record.sketch_hash is not None else None
    target = Target(session.get_one(TargetRow, record.target_hash).json)
    return ListingSubject(workload.module_blob, target, body, record.decisions)
