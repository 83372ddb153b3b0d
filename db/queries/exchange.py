"""What a dataset file takes of the database: records in the order of their ids, and what they name by hash."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Record, Schedule, SketchRow, TargetRow, WorkloadRow
from db.queries import dataset
from db.queries.dataset import RecordFilter
from tunesmith.dataset.rows import About, RecordRow, digest, public
from tunesmith.types import CacheState


@dataclass(frozen=True)
class ExportedRecord:
    """A record as a dataset file has it.

    Attributes:
        id: id of the record here.
        environment: the public part, which the row names by its hash.
    """

    id: int
    row: RecordRow
    environment: Mapping[str, Any]
    about: About
    device_class: str


def last_id(session: Session) -> int:
    """The greatest id of a record; 0 without any."""
    return session.scalar(sa.select(sa.func.max(Record.id))) or 0


def records(session: Session, wanted: RecordFilter, *, after: int, last: int, limit: int) -> list[ExportedRecord]:
    """Records with ids above ``after`` and up to ``last``, oldest first; those that were revoked are left out."""
    found = [part for part in dataset.oldest(session, wanted, after=after, limit=limit) if part.record.id <= last]
    return [exported(part.record, part.device_class) for part in found]


def exported(record: Record, device_class: str = "") -> ExportedRecord:
    """A record as a dataset file has it."""
    environment = public(record.environment)
    return ExportedRecord(
        record.id, row_of(record, digest(environment)), environment, About.of(record.family, environment), device_class
    )


def row_of(record: Record, environment: str) -> RecordRow:
    """The row of a record; ``environment``: hash of its public environment."""
    return RecordRow(
        workload=record.workload_hash,
        target=record.target_hash,
        sketch=record.sketch_hash,
        decisions=record.decisions,
        samples=record.samples,
        latency=record.latency,
        failure=record.failure,
        stopped=record.stopped,
        duplicate=record.duplicate,
        build_seconds=record.build_seconds,
        run_seconds=record.run_seconds,
        device_seconds=record.device_seconds,
        precision=record.precision,
        environment=environment,
        measured_at=record.measured_at or record.created_at,
    )


class BestSchedule(NamedTuple):
    """A champion, with what it is of and the samples of its record."""

    schedule: Schedule
    workload: WorkloadRow
    target: TargetRow
    samples: Sequence[float]


def best_schedules(session: Session, wanted: RecordFilter) -> list[BestSchedule]:
    """The measured champions of workloads, one for each on a target, by workload.

    Args:
        wanted: only its ``workload``, ``family``, ``target`` and ``cache`` count. Without a state of the caches, a
            champion that was measured with the weights where models have them comes first.
    """
    columns: tuple[Any, ...] = (Schedule, WorkloadRow, TargetRow, Record.samples)
    query = (
        sa.select(*columns)
        .join(WorkloadRow, Schedule.workload_hash == WorkloadRow.hash)
        .join(TargetRow, Schedule.target_hash == TargetRow.hash)
        .join(Record, Schedule.record_id == Record.id)
        .where(Schedule.simulated.is_(False))
    )
    if wanted.workload is not None:
        query = query.where(Schedule.workload_hash == wanted.workload)
    if wanted.family is not None:
        query = query.where(WorkloadRow.family == wanted.family)
    if wanted.target is not None:
        query = query.where(Schedule.target_hash.in_(dataset.targets_named(session, wanted.target)))
    if wanted.cache is not None:
        query = query.where(Schedule.cache == wanted.cache.value)
    warm = Schedule.cache != CacheState.STREAMED.value
    found: dict[tuple[str, str], BestSchedule] = {}
    for row in session.execute(query.order_by(Schedule.workload_hash, warm)):
        best = BestSchedule._make(row)
        found.setdefault((best.schedule.workload_hash, best.schedule.target_hash), best)
    return list(found.values())


def targets(session: Session, hashes: Collection[str]) -> Sequence[TargetRow]:
    """Targets by hash."""
    return session.scalars(sa.select(TargetRow).where(TargetRow.hash.in_(hashes)).order_by(TargetRow.hash)).all()


def workloads(session: Session, hashes: Collection[str]) -> Sequence[WorkloadRow]:
    """Workloads by hash."""
    return session.scalars(sa.select(WorkloadRow).where(WorkloadRow.hash.in_(hashes)).order_by(WorkloadRow.hash)).all()


def sketches(session: Session, hashes: Collection[str]) -> Sequence[SketchRow]:
    """Sketches by hash."""
    return session.scalars(sa.select(SketchRow).where(SketchRow.hash.in_(hashes)).order_by(SketchRow.hash)).all()
