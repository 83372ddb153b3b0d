"""Jobs, their tasks, and the rounds, batches and evaluations that they consist of."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import Base, Created, Held, Leased
from tunesmith.dataset.collecting import Collecting, JobKind
from tunesmith.job_tags import MAX_COMMENT, MAX_LENGTH
from tunesmith.names import DEFAULT_PRECISION, DEFAULT_SPACE
from tunesmith.options import DEFAULT_TOLERANCE, JobOptions
from tunesmith.proposals import DEFAULT_SHARE
from tunesmith.states import JobState, RoundState, WorkState

BigId = BigInteger().with_variant(Integer(), "sqlite")
# AUTOINCREMENT on SQLite: workers name batches and rounds by id, so an id must never be given twice.


class Job(Base, Created, Leased):
    """One request to tune a model for a target, or to label programs of its tasks. The lease columns are those of its
    preparation."""

    __tablename__ = "jobs"
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), default="")
    comment: Mapped[str] = mapped_column(String(MAX_COMMENT), default="")
    owner: Mapped[str] = mapped_column(String(100), default="local")
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"), index=True)
    target_spec: Mapped[str] = mapped_column(String(2000))  # as given
    target_hash: Mapped[str | None] = mapped_column(ForeignKey("targets.hash"))  # once resolved
    state: Mapped[JobState] = mapped_column(default=JobState.QUEUED, index=True)
    budget_trials: Mapped[int | None]
    budget_seconds: Mapped[float | None]
    stop_when_converged: Mapped[bool] = mapped_column(default=False)
    search: Mapped[str] = mapped_column(String(60))
    cost_model: Mapped[str] = mapped_column(String(60))
    allocator: Mapped[str] = mapped_column(String(60))
    priority: Mapped[int] = mapped_column(default=0)
    seed: Mapped[int] = mapped_column(default=0)
    warm_start: Mapped[bool] = mapped_column(default=True)
    verify: Mapped[bool] = mapped_column(default=True)
    fast_math: Mapped[bool] = mapped_column(default=True)  # allowed; the model's preparation records the result
    winograd: Mapped[bool] = mapped_column(default=True)  # the same
    space: Mapped[str] = mapped_column(String(60), default=DEFAULT_SPACE)  # which sketches its tasks have
    precision: Mapped[str] = mapped_column(String(20), default=DEFAULT_PRECISION)  # "auto" until it is chosen
    tolerance: Mapped[float] = mapped_column(default=DEFAULT_TOLERANCE)  # by which it is chosen
    proposal_share: Mapped[float] = mapped_column(default=DEFAULT_SHARE)
    precision_reason: Mapped[str | None] = mapped_column(String(1000))  # why that was chosen
    per_task: Mapped[int | None]  # labels that a collecting job wants of each task; None: it tunes
    shard: Mapped[int] = mapped_column(default=0)  # which of so many parts of each space they are of
    shards: Mapped[int] = mapped_column(default=1)
    simulated: Mapped[bool] = mapped_column(default=False)  # a simulated device took part: its figures are invented
    started_at: Mapped[dt.datetime | None]
    finished_at: Mapped[dt.datetime | None]
    paused_seconds: Mapped[float] = mapped_column(default=0.0)
    paused_at: Mapped[dt.datetime | None]
    stop_reason: Mapped[str | None] = mapped_column(String(60))  # trials, seconds, converged, exhausted, collected, …
    __table_args__ = (
        Index("ix_jobs_owner_created_at", "owner", "created_at"),
        Index("ix_jobs_created_at", "created_at"),
    )

    @property
    def options(self) -> JobOptions:
        """The columns that are options."""
        return JobOptions.model_validate(self, from_attributes=True)

    @property
    def collecting(self) -> Collecting | None:
        """What a collecting job is asked for; None for one that tunes."""
        return None if self.per_task is None else Collecting(self.per_task, self.shard, self.shards)

    @property
    def kind(self) -> JobKind:
        """What the job does with its tasks."""
        return JobKind.TUNE if self.per_task is None else JobKind.COLLECT


class JobTag(Base):
    """A word by which a job is found."""

    __tablename__ = "job_tags"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(MAX_LENGTH), primary_key=True)
    __table_args__ = (Index("ix_job_tags_tag_job_id", "tag", "job_id"),)


class JobTask(Base):
    """A task of a job: how far its tuning has come."""

    __tablename__ = "job_tasks"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    workload_hash: Mapped[str] = mapped_column(ForeignKey("workloads.hash"))
    family_id: Mapped[int | None] = mapped_column(ForeignKey("families.id"), index=True)
    position: Mapped[int]
    name: Mapped[str] = mapped_column(String(200))
    weight: Mapped[int]
    alternative_of: Mapped[str | None] = mapped_column(String(64))  # workload of the direct task at the same places
    tunable: Mapped[bool]
    sketches: Mapped[list[Any]]  # hashes, in the space's order
    exhausted: Mapped[bool] = mapped_column(default=False)  # the searcher has nothing left to propose
    reason: Mapped[str | None] = mapped_column(String(1000))  # why the task keeps its default schedule, if so
    trials: Mapped[int] = mapped_column(default=0)
    failures: Mapped[int] = mapped_column(default=0)
    duplicates: Mapped[int] = mapped_column(default=0)  # trials with a latency whose code another one had
    earlier_labels: Mapped[int] = mapped_column(default=0)  # what earlier jobs collected of the same, see labels
    known_seconds: Mapped[float | None]  # latency of the champion that earlier jobs left, with which the task began
    rough_seconds: Mapped[float | None]  # default schedule's latency, timed at the job's start or scaled from others
    untuned_seconds: Mapped[float | None]
    best_seconds: Mapped[float | None]
    best_record_id: Mapped[int | None] = mapped_column(BigId)
    answer: Mapped[dict[str, Any] | None]  # unmeasured.Answer, until something of the task is measured
    searcher_state: Mapped[dict[str, Any] | None]
    told_record_id: Mapped[int] = mapped_column(BigId, default=0)
    __table_args__ = (UniqueConstraint("job_id", "workload_hash"), {"sqlite_autoincrement": True})


class Family(Base):
    """Tasks of a job with similar computation."""

    __tablename__ = "families"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    name: Mapped[str] = mapped_column(String(100))
    __table_args__ = (UniqueConstraint("job_id", "name"), {"sqlite_autoincrement": True})


class Round(Base, Created, Leased):
    """One slot of one task: a proposal and its measurement. The lease columns are those of the proposal."""

    __tablename__ = "rounds"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    job_task_id: Mapped[int] = mapped_column(ForeignKey("job_tasks.id", ondelete="CASCADE"), index=True)
    number: Mapped[int]  # counts within the job
    size: Mapped[int]
    baseline: Mapped[bool] = mapped_column(default=False)  # also measures the default schedule
    state: Mapped[RoundState] = mapped_column(default=RoundState.PROPOSING, index=True)
    reason: Mapped[dict[str, Any] | None]  # why the allocator chose this task
    cost_model_id: Mapped[str | None] = mapped_column(String(40))
    metrics: Mapped[dict[str, Any] | None]  # proposal and run seconds; the model's ranking of this batch
    best_before: Mapped[float | None]
    best_after: Mapped[float | None]
    champion_since: Mapped[dt.datetime | None]  # when the task's best was found, if the round brought it
    finished_at: Mapped[dt.datetime | None]
    __table_args__ = (
        UniqueConstraint("job_id", "number"),
        Index("ix_rounds_job_id_state", "job_id", "state"),
        {"sqlite_autoincrement": True},
    )


class Batch(Base, Created, Leased, Held):
    """The candidates of a round on their way through a device."""

    __tablename__ = "batches"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    round_id: Mapped[int] = mapped_column(ForeignKey("rounds.id", ondelete="CASCADE"), unique=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    device_class: Mapped[str] = mapped_column(String(100), index=True)
    state: Mapped[WorkState] = mapped_column(default=WorkState.QUEUED, index=True)
    candidates: Mapped[list[Any]]  # Candidate.to_json(), by index
    predictions: Mapped[list[Any] | None]  # predicted score by index, None without a model
    deviations: Mapped[list[Any] | None]  # standard deviation of each score over the model's members
    features_blob: Mapped[str | None] = mapped_column(String(64))  # npz: rows, offsets
    finished_at: Mapped[dt.datetime | None]
    __table_args__ = {"sqlite_autoincrement": True}


class Evaluation(Base, Created, Leased, Held):
    """The end-to-end check of a job: the compiled model, untuned against tuned."""

    __tablename__ = "evaluations"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), unique=True)
    device_class: Mapped[str] = mapped_column(String(100), index=True)
    state: Mapped[WorkState] = mapped_column(default=WorkState.QUEUED, index=True)
    untuned_samples: Mapped[list[Any] | None]
    tuned_samples: Mapped[list[Any] | None]
    output_error: Mapped[float | None]
    output_tolerance: Mapped[float | None]
    output_signal: Mapped[float | None]  # part of themselves by which outputs of two inputs differ
    references: Mapped[list[Any] | None]  # ReferenceTiming of other runtimes, fastest first
    applied: Mapped[int | None]
    environment: Mapped[dict[str, Any] | None]
    finished_at: Mapped[dt.datetime | None]
    __table_args__ = {"sqlite_autoincrement": True}
