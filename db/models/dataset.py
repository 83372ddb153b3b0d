"""The performance dataset: sketches, records, champions, cost models and events."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import Base, Created, Leased, PlainJson
from db.models.jobs import BigId
from tunesmith.names import DEFAULT_PRECISION
from tunesmith.states import WorkState
from tunesmith.types import CacheState, Origin, build_of, cache_state, processor_of

IMPORTED = "origin = 'imported'"


def _simulated(context: DefaultExecutionContext) -> bool:
    return bool(_environment(context).get("simulated"))


def _cache(context: DefaultExecutionContext) -> str:
    return cache_state(_environment(context)).value


def _processor(context: DefaultExecutionContext) -> str:
    return processor_of(_environment(context))


def _build(context: DefaultExecutionContext) -> str:
    return build_of(_environment(context))


def _environment(context: DefaultExecutionContext) -> dict[str, Any]:
    values: dict[str, Any] = context.get_current_parameters()  # type: ignore[no-untyped-call]
    return values.get("environment") or {}


def _partial(name: str, *columns: str, where: str, sqlite: str | None = None, unique: bool = False) -> Index:
    """An index of the rows that few are; ``sqlite``: the condition in SQLite's words, where they differ."""
    return Index(name, *columns, unique=unique, sqlite_where=text(sqlite or where), postgresql_where=text(where))


class SketchRow(Base, Created):
    """A trace skeleton, stored once: with a record's decisions it rebuilds the exact trace.

    It may be that of several workloads; ``workload_hash`` is the one that came with it.
    """

    __tablename__ = "sketches"
    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    workload_hash: Mapped[str] = mapped_column(ForeignKey("workloads.hash"), index=True)
    body: Mapped[dict[str, Any]]  # trace, knobs, postprocessors, format version


class Record(Base, Created):
    """One measured candidate. ``(batch_id, index)`` makes results idempotent."""

    __tablename__ = "records"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="SET NULL"))
    job_task_id: Mapped[int | None] = mapped_column(ForeignKey("job_tasks.id", ondelete="SET NULL"))
    batch_id: Mapped[int | None] = mapped_column(ForeignKey("batches.id", ondelete="SET NULL"))
    index: Mapped[int]
    workload_hash: Mapped[str] = mapped_column(ForeignKey("workloads.hash"))
    target_hash: Mapped[str] = mapped_column(ForeignKey("targets.hash"))
    sketch_hash: Mapped[str | None] = mapped_column(ForeignKey("sketches.hash"))  # None: default schedule
    decisions: Mapped[list[Any]] = mapped_column(PlainJson)
    samples: Mapped[list[Any]] = mapped_column(PlainJson)
    latency: Mapped[float | None]  # median of the samples
    failure: Mapped[str | None] = mapped_column(String(30))
    message: Mapped[str] = mapped_column(String(2000), default="")
    build_seconds: Mapped[float] = mapped_column(default=0.0)
    run_seconds: Mapped[float] = mapped_column(default=0.0)
    device_seconds: Mapped[float] = mapped_column(default=0.0)  # part of run_seconds: the kernel itself
    stopped: Mapped[str | None] = mapped_column(String(20))  # StopReason
    duplicate: Mapped[bool] = mapped_column(default=False)  # the samples are those of a candidate with equal code
    confirmation: Mapped[dict[str, Any] | None]  # messages.Confirmation of a finalist
    environment: Mapped[dict[str, Any]] = mapped_column(PlainJson)
    simulated: Mapped[bool] = mapped_column(default=_simulated)  # by its environment: a simulated device invented it
    cache: Mapped[str] = mapped_column(String(20), default=_cache)  # CacheState, by its environment
    family: Mapped[str] = mapped_column(String(100), default="")  # operator of the workload
    precision: Mapped[str] = mapped_column(String(20), default=DEFAULT_PRECISION)  # precision of the job
    processor: Mapped[str] = mapped_column(String(100), default=_processor)  # the CPU's name, by its environment
    build: Mapped[str] = mapped_column(String(60), default=_build)  # TVM's version, by its environment
    origin: Mapped[str] = mapped_column(String(20), default=Origin.MEASURED.value)
    content: Mapped[str | None] = mapped_column(String(64))  # hash of what was measured; filled in before an import
    measured_at: Mapped[dt.datetime | None]  # when, if not when the row was made
    import_id: Mapped[str | None] = mapped_column(String(40))  # the RecordImport that brought it
    worker_id: Mapped[str | None] = mapped_column(String(32))  # the enrolled worker that reported it
    trace: Mapped[list[Any] | None] = mapped_column(deferred=True)  # MetaSchedule trace JSON of a confirmed winner
    revoked_at: Mapped[dt.datetime | None]  # no longer believed: no champion, and nothing learns from it
    __table_args__ = (
        UniqueConstraint("batch_id", "index"),
        Index("ix_records_best", "workload_hash", "target_hash", "latency"),
        _partial("ix_records_job_id_id", "job_id", "id", where="job_id IS NOT NULL"),
        _partial("ix_records_job_id_latency_id", "job_id", "latency", "id", where="job_id IS NOT NULL"),
        _partial("ix_records_job_id_failure_id", "job_id", "failure", "id", where="failure IS NOT NULL"),
        _partial("ix_records_job_task_id_latency_id", "job_task_id", "latency", "id", where="job_task_id IS NOT NULL"),
        _partial("ix_records_worker_id", "worker_id", where="worker_id IS NOT NULL"),
        Index("ix_records_counted", "workload_hash", "target_hash", "precision", "simulated", "failure"),
        Index("ix_records_target_hash_id", "target_hash", "id"),
        Index("ix_records_workload_hash_id", "workload_hash", "id"),
        Index("ix_records_family_id", "family", "id"),
        Index("ix_records_processor_id", "processor", "id"),
        _partial("ix_records_content_id", "content", "id", where="origin <> 'imported'"),
        _partial("uq_records_imported", "content", where=IMPORTED, unique=True),
        _partial("ix_records_imported_id", "id", where=IMPORTED),
        _partial("ix_records_failure_id", "failure", "id", where="failure IS NOT NULL"),
        _partial("ix_records_precision_id", "precision", "id", where="precision <> 'float32'"),
        _partial("ix_records_simulated_id", "id", where="simulated", sqlite="simulated = 1"),
        {"sqlite_autoincrement": True},
    )


class Schedule(Base):
    """The champion of a workload on a target. Simulated devices' inventions have champions of their own, and so have
    measurements with the weights elsewhere."""

    __tablename__ = "schedules"
    workload_hash: Mapped[str] = mapped_column(ForeignKey("workloads.hash"), primary_key=True)
    target_hash: Mapped[str] = mapped_column(ForeignKey("targets.hash"), primary_key=True)
    simulated: Mapped[bool] = mapped_column(primary_key=True, default=False)
    cache: Mapped[str] = mapped_column(String(20), primary_key=True, default=CacheState.WARM.value)
    record_id: Mapped[int] = mapped_column(ForeignKey("records.id"), index=True)
    latency: Mapped[float]
    trace: Mapped[list[Any]]  # MetaSchedule trace JSON, postprocessing included
    updated_at: Mapped[dt.datetime]


class CostModelRow(Base, Created, Leased):
    """A trained cost model."""

    __tablename__ = "cost_models"
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    kind: Mapped[str] = mapped_column(String(60))
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="SET NULL"), index=True)
    target_hash: Mapped[str] = mapped_column(ForeignKey("targets.hash"), index=True)
    number: Mapped[int]  # version: counts within the job
    state: Mapped[WorkState] = mapped_column(default=WorkState.QUEUED, index=True)
    features: Mapped[str] = mapped_column(String(60))  # extractor and its version
    precision: Mapped[str] = mapped_column(String(20), default=DEFAULT_PRECISION)  # precision of its job
    trained_on: Mapped[int] = mapped_column(default=0)  # records
    trained_through: Mapped[int] = mapped_column(BigId, default=0)  # the last record's id
    simulated: Mapped[bool] = mapped_column(default=False)  # what a simulated device invented was in it
    metrics: Mapped[dict[str, Any] | None]
    blob: Mapped[str | None] = mapped_column(String(64))

    __table_args__ = (Index("ix_cost_models_created_at_id", "created_at", "id"),)


class Event(Base, Created):
    """Something that happened; ids only grow."""

    __tablename__ = "events"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(60))
    data: Mapped[dict[str, Any]]
    # AUTOINCREMENT: an id must not come back after a job and its events are deleted.
    __table_args__ = (Index("ix_events_job_id_id", "job_id", "id"), {"sqlite_autoincrement": True})
