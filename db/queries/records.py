"""Measured candidates: idempotent insertion, and what searchers and cost models read of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Batch, Job, Record, WorkloadRow
from db.queries.relatives import Likeness, nearest
from tunesmith.names import DEFAULT_PRECISION, DEFAULT_SPACE
from tunesmith.types import CacheState, Candidate, FailureKind, Measurement, Origin

BLAMELESS = (FailureKind.ABANDONED.value, FailureKind.DEVICE_LOST.value)
"""Failures that say nothing about the candidate."""


MAX_TOLD = 1 << 16
"""Records of a workload that a fresh searcher is told of at most."""


@dataclass(frozen=True)
class TrainingRow:
    """What training needs of a record; its features are in the batch's blob."""

    id: int
    workload_hash: str
    batch_id: int
    index: int
    latency: float | None
    features_blob: str
    streamed: bool = False

    @property
    def group(self) -> str:
        """What its latency compares with: the workload, measured in one state of the caches."""
        return f"{self.workload_hash}/{CacheState.STREAMED.value}" if self.streamed else self.workload_hash


@dataclass(frozen=True)
class Claims:
    """Imported records that compare with those of a job.

    Attributes:
        precision: the job's.
        devices: processor and compiler of each device here that the job may be measured on.
    """

    precision: str
    devices: Collection[tuple[str, str]]


def indices(session: Session, batch_id: int) -> set[int]:
    """Indices of a batch that have a record."""
    return set(session.scalars(sa.select(Record.index).where(Record.batch_id == batch_id)))


def of_batch(session: Session, batch_id: int) -> Sequence[Record]:
    """A batch's records by index."""
    return session.scalars(sa.select(Record).where(Record.batch_id == batch_id).order_by(Record.index)).all()


def of_task_since(session: Session, job_task_id: int, after: int) -> Sequence[Record]:
    """A task's records with an id greater than ``after``, oldest first.

    Records of one task are inserted under a lock on the task's row, so their ids appear in order.
    """
    query = sa.select(Record).where(Record.job_task_id == job_task_id, Record.id > after)
    return session.scalars(query.order_by(Record.id)).all()


def best_elsewhere(
    session: Session,
    workload: str,
    target: str,
    sketches: Collection[str],
    not_job: str,
    limit: int,
    cache: CacheState = CacheState.WARM,
    claims: Claims | None = None,
) -> Sequence[Record]:
    """The fastest records of a workload on a target that other jobs or imports left, fastest first.

    Args:
        sketches: the job's own, so that a record of another version of the design space is none.
        cache: latencies of another state of the caches would not compare.
        claims: which imported records count; None: none.
    """
    origin = _measured()
    if claims is not None:
        origin = sa.or_(
            origin,
            sa.and_(
                Record.precision == claims.precision,
                sa.tuple_(Record.processor, Record.build).in_(sorted(claims.devices)),
            ),
        )
    query = sa.select(Record).where(
        Record.workload_hash == workload,
        Record.target_hash == target,
        Record.latency.is_not(None),
        Record.sketch_hash.in_(sketches),
        Record.job_id.is_distinct_from(not_job),
        origin,
        _real(),
        Record.cache == cache.value,
    )
    return session.scalars(query.order_by(Record.latency, Record.id).limit(limit)).all()


def of_workload_since(
    session: Session, workload: str, target: str, sketches: Collection[str], after: int, job_id: str
) -> Sequence[Record]:
    """The newest ``MAX_TOLD`` records of a workload on a target with an id greater than ``after``, oldest first.

    Imported ones are left out: a collecting job labels what they claim.

    Args:
        job_id: job whose records count even if its device is simulated.
    """
    query = sa.select(Record).where(
        Record.workload_hash == workload,
        Record.target_hash == target,
        Record.sketch_hash.in_(sketches),
        Record.id > after,
        sa.or_(Record.failure.is_(None), Record.failure.not_in(BLAMELESS)),
        _measured(),
        sa.or_(Record.job_id == job_id, _real()),
    )
    return session.scalars(query.order_by(Record.id.desc()).limit(MAX_TOLD)).all()[::-1]


def labels_of(session: Session, job: Job) -> dict[tuple[str, CacheState], int]:
    """Labels that earlier collecting jobs left of the job's shard, with its sampler, by workload and cache state."""
    query = (
        sa.select(Record.workload_hash, Record.cache, sa.func.count())
        .join(Job, Record.job_id == Job.id)
        .where(
            Record.target_hash == job.target_hash,
            Record.latency.is_not(None),
            Record.sketch_hash.is_not(None),
            Record.duplicate.is_(False),
            Job.per_task.is_not(None),
            Job.id != job.id,
            *(getattr(Job, name) == getattr(job, name) for name in ("search", "shard", "shards")),
            _real(),
        )
        .group_by(Record.workload_hash, Record.cache)
    )
    return {(str(workload), CacheState(cache)): int(number) for workload, cache, number in session.execute(query)}


def latest_baseline(session: Session, workload: str, target: str, cache: CacheState) -> float | None:
    """Seconds of a workload's default schedule on a target, as measured last; None where it never ran in that state."""
    query = sa.select(Record.latency).where(
        Record.workload_hash == workload,
        Record.target_hash == target,
        Record.latency.is_not(None),
        Record.sketch_hash.is_(None),
        _measured(),
        _real(),
        Record.cache == cache.value,
    )
    return session.scalars(query.order_by(Record.id.desc()).limit(1)).first()


def best_of_family(
    session: Session, mine: Likeness, target: str, job_id: str | None, workloads: int, each: int
) -> list[Sequence[Record]]:
    """The fastest records, fastest first, of other workloads of the same family on a target: those most alike.

    Args:
        mine: a workload that need not be known.
        job_id: job whose records count even if its device is simulated.
        workloads: how many other ones.
        each: records of each.
    """
    counts = (
        Record.target_hash == target,
        Record.latency.is_not(None),
        Record.sketch_hash.is_not(None),
        _measured(),
        _real() if job_id is None else sa.or_(Record.job_id == job_id, _real()),
    )
    found = nearest(session, mine, sa.exists().where(Record.workload_hash == WorkloadRow.hash, *counts))
    fastest = sa.select(Record).where(*counts).order_by(Record.latency, Record.id).limit(each)
    return [session.scalars(fastest.where(Record.workload_hash == key)).all() for key, _ in found[:workloads]]


def measurement(row: Record) -> Measurement:
    """The record as searchers see it."""
    candidate = Candidate.from_json([row.sketch_hash, row.decisions])
    failure = FailureKind(row.failure) if row.failure else None
    return Measurement(candidate, tuple(row.samples), failure, row.message, row.build_seconds, row.run_seconds)


def _measured() -> sa.ColumnElement[bool]:
    """By a worker of this service, and no claim of whoever made a file."""
    return Record.origin == Origin.MEASURED.value


def _real() -> sa.ColumnElement[bool]:
    """Not the invention of a simulated device, which another job must not learn from; and still believed."""
    return sa.and_(Record.simulated.is_(False), Record.revoked_at.is_(None))


def training_rows(
    session: Session,
    target: str,
    limit: int,
    *,
    job_id: str | None = None,
    not_job: str | None = None,
    space: str = DEFAULT_SPACE,
    precision: str = DEFAULT_PRECISION,
) -> list[TrainingRow]:
    """The newest records that have features, newest first, of one job or of all but one.

    Args:
        space: space of the job that learns from others; for a part of a space, only records of such jobs count.
        precision: precision of that job; of other jobs only records of the same one count, for the reason that
            ``cost_models.latest_elsewhere`` gives.
    """
    query = (
        sa.select(
            Record.id,
            Record.workload_hash,
            Batch.id,
            Record.index,
            Record.latency,
            Batch.features_blob,
            Record.cache == CacheState.STREAMED.value,
        )
        .join(Batch, Record.batch_id == Batch.id)
        .where(Record.target_hash == target, Batch.features_blob.is_not(None), Record.sketch_hash.is_not(None))
        .where(sa.or_(Record.failure.is_(None), Record.failure.not_in(BLAMELESS)), Record.revoked_at.is_(None))
    )
    if job_id is not None:
        query = query.where(Record.job_id == job_id)
    if not_job is not None:
        query = query.join(Job, Record.job_id == Job.id).where(Job.id != not_job, Job.precision == precision, _real())
    if space != DEFAULT_SPACE:
        query = query.where(Record.job_id.in_(sa.select(Job.id).where(Job.space == space)))
    found = session.execute(query.order_by(Record.id.desc()).limit(limit)).all()
    return [
        TrainingRow(id_, workload, batch, index, latency, blob, bool(streamed))
        for id_, workload, batch, index, latency, blob, streamed in found
        if blob is not None
    ]


def count_valid(session: Session, job_id: str) -> int:
    """A job's measured candidates with a latency and features; default schedules have none."""
    query = (
        sa.select(sa.func.count())
        .select_from(Record)
        .join(Batch, Record.batch_id == Batch.id)
        .where(Record.job_id == job_id, Record.latency.is_not(None), Record.sketch_hash.is_not(None))
        .where(Batch.features_blob.is_not(None))
    )
    return session.scalar(query) or 0
