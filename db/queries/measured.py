"""Measured candidates of a target: sketch, decisions and latency, for models that make rows of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Job, JobTask, Model, Record, TargetRow, WorkloadRow
from db.queries.records import BLAMELESS
from tunesmith.targets import Target
from tunesmith.types import CacheState, Candidate, Origin


@dataclass(frozen=True)
class MeasuredCandidate:
    """A record.

    Attributes:
        latency: seconds; None where the candidate failed.
        content: hash of what was measured; None where it was never exported, and no import came.
    """

    id: int
    workload: str
    candidate: Candidate
    latency: float | None
    samples: tuple[float, ...]
    content: str | None = None


@dataclass(frozen=True)
class MeasuredWorkload:
    """A workload that has records. ``models``: names of the models whose jobs measured it."""

    hash: str
    name: str
    family: str
    module_blob: str
    models: frozenset[str]


def candidates(
    session: Session, target: str, precision: str, limit: int, sampler: str | None = None, imported: bool = False
) -> list[MeasuredCandidate]:
    """The newest records of a target and a precision, newest first; what simulated devices invented is left out.

    What was imported is left out, too, because nobody here ran its sketches, unless it is asked for; and so are
    latencies of other states of the caches, because they do not compare.

    Args:
        sampler: only labels of collecting jobs with that sampler; None: whatever was measured.
        imported: what was imported, too.
    """
    query = (
        sa.select(
            Record.id,
            Record.workload_hash,
            Record.sketch_hash,
            Record.decisions,
            Record.latency,
            Record.samples,
            Record.content,
        )
        .where(Record.target_hash == target, Record.sketch_hash.is_not(None), Record.cache == CacheState.WARM.value)
        .where(Record.simulated.is_(False), Record.revoked_at.is_(None))
        .where(sa.or_(Record.failure.is_(None), Record.failure.not_in(BLAMELESS)))
        .where(Record.precision == precision, Record.origin.in_(_origins(imported)))
    )
    if sampler is not None:
        labels = sa.select(Job.id).where(Job.per_task.is_not(None), Job.search == sampler)
        query = query.where(Record.job_id.in_(labels))
    query = query.order_by(Record.id.desc()).limit(limit)
    return [
        MeasuredCandidate(id_, workload, Candidate.from_json([sketch, decisions]), latency, tuple(samples), content)
        for id_, workload, sketch, decisions, latency, samples, content in session.execute(query)
    ]


def _origins(imported: bool) -> list[str]:
    return [Origin.MEASURED.value, *([Origin.IMPORTED.value] if imported else [])]


def workloads(session: Session, hashes: Collection[str]) -> list[MeasuredWorkload]:
    """What is known of some workloads, by hash."""
    row = WorkloadRow
    pairs = sa.select(JobTask.workload_hash, Model.name).join(Job, JobTask.job_id == Job.id)
    pairs = pairs.join(Model, Job.model_id == Model.id).where(JobTask.workload_hash.in_(hashes)).distinct()
    models: dict[str, set[str]] = {}
    for workload, name in session.execute(pairs):
        models.setdefault(workload, set()).add(name)
    query = sa.select(row.hash, row.name, row.family, row.module_blob).where(row.hash.in_(hashes)).order_by(row.hash)
    return [
        MeasuredWorkload(each.hash, each.name, each.family, each.module_blob, frozenset(models.get(each.hash, ())))
        for each in session.execute(query)
    ]


def richest_target(session: Session, imported: bool = False) -> str | None:
    """Hash of the target with most records that a model can learn from; None where there is none.

    Args:
        imported: what was imported counts, too.
    """
    query = sa.select(Record.target_hash).where(
        Record.sketch_hash.is_not(None), Record.simulated.is_(False), Record.origin.in_(_origins(imported))
    )
    query = query.group_by(Record.target_hash).order_by(sa.func.count().desc(), Record.target_hash)
    return session.scalars(query.limit(1)).first()


def target(session: Session, key: str) -> tuple[Target, Any] | None:
    """A target by its hash, and its device class; None when it is not known."""
    row = session.get(TargetRow, key)
    return None if row is None else (Target(row.json), row.device_class)
