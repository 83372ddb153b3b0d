"""The first schema. Names of keys and indexes follow ``Base``'s naming convention."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create every table."""
    _fleet()
    _models()
    _jobs()
    _rounds()
    _dataset()


def _lease() -> tuple[Any, ...]:
    """Columns of work that is leased."""
    return (
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("dispatched", sa.Integer(), nullable=False),
        sa.Column("deadline", TIME, nullable=True),
        sa.Column("worker", sa.String(200), nullable=True),
        sa.Column("error", JSON, nullable=True),
    )


def _fleet() -> None:
    op.create_table(
        "targets",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("json", JSON, nullable=False),
        sa.Column("device_class", sa.String(100), nullable=False, index=True),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
    )
    op.create_table(
        "devices",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("worker", sa.String(200), nullable=False),
        sa.Column("host", sa.String(200), nullable=False),
        sa.Column("device_classes", JSON, nullable=False),
        sa.Column("target", JSON, nullable=False),
        sa.Column("cores", sa.Integer(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("environment", JSON, nullable=False),
        sa.Column("busy", sa.Boolean(), nullable=False),
        sa.Column("stopped", sa.Boolean(), nullable=False),
        sa.Column("seen_at", TIME, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("owner", sa.String(100), primary_key=True),
        sa.Column("route", sa.String(100), primary_key=True),
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", JSON, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
    )


def _models() -> None:
    op.create_table(
        "models",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("source", sa.String(20), nullable=False),
        sa.Column("operator", sa.String(500), nullable=True),
        sa.Column("sha256", sa.String(64), nullable=False, index=True),
        sa.Column("inputs_key", sa.String(500), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("inputs", JSON, nullable=True),
        sa.Column("module_blob", sa.String(64), nullable=True),
        sa.Column("params_blob", sa.String(64), nullable=True),
        sa.Column("pipeline", sa.String(60), nullable=True),
        *_lease(),
        sa.UniqueConstraint("sha256", "inputs_key", "owner", name="uq_models_sha256"),
    )
    op.create_table(
        "workloads",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("family", sa.String(100), nullable=False),
        sa.Column("args", JSON, nullable=False),
        sa.Column("flops", sa.Double(), nullable=False),
        sa.Column("module_blob", sa.String(64), nullable=False),
        sa.Column("metaschedule_blob", sa.String(64), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
    )
    op.create_table(
        "model_tasks",
        sa.Column("model_id", sa.String(40), sa.ForeignKey("models.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("workload_hash", sa.String(64), sa.ForeignKey("workloads.hash"), primary_key=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
    )
    op.create_table(
        "sketches",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("workload_hash", sa.String(64), sa.ForeignKey("workloads.hash"), nullable=False, index=True),
        sa.Column("body", JSON, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("model_id", sa.String(40), sa.ForeignKey("models.id"), nullable=False, index=True),
        sa.Column("target_spec", sa.String(2000), nullable=False),
        sa.Column("target_hash", sa.String(64), sa.ForeignKey("targets.hash"), nullable=True),
        sa.Column("state", sa.String(20), nullable=False, index=True),
        sa.Column("budget_trials", sa.Integer(), nullable=True),
        sa.Column("budget_seconds", sa.Double(), nullable=True),
        sa.Column("stop_when_converged", sa.Boolean(), nullable=False),
        sa.Column("search", sa.String(60), nullable=False),
        sa.Column("cost_model", sa.String(60), nullable=False),
        sa.Column("allocator", sa.String(60), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("warm_start", sa.Boolean(), nullable=False),
        sa.Column("verify", sa.Boolean(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("paused_seconds", sa.Double(), nullable=False),
        sa.Column("paused_at", TIME, nullable=True),
        sa.Column("stop_reason", sa.String(60), nullable=True),
        *_lease(),
    )
    op.create_table(
        "families",
        sa.Column("id", BIG_ID, autoincrement=True, primary_key=True),
        sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.UniqueConstraint("job_id", "name", name="uq_families_job_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "job_tasks",
        sa.Column("id", BIG_ID, autoincrement=True, primary_key=True),
        sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("workload_hash", sa.String(64), sa.ForeignKey("workloads.hash"), nullable=False),
        sa.Column("family_id", BIG_ID, sa.ForeignKey("families.id"), nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.Column("tunable", sa.Boolean(), nullable=False),
        sa.Column("sketches", JSON, nullable=False),
        sa.Column("exhausted", sa.Boolean(), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("untuned_seconds", sa.Double(), nullable=True),
        sa.Column("best_seconds", sa.Double(), nullable=True),
        sa.Column("best_record_id", BIG_ID, nullable=True),
        sa.Column("searcher_state", JSON, nullable=True),
        sa.Column("told_record_id", BIG_ID, nullable=False),
        sa.UniqueConstraint("job_id", "workload_hash", name="uq_job_tasks_job_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "evaluations",
        sa.Column("id", BIG_ID, autoincrement=True, primary_key=True),
        sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False, unique=True),
        sa.Column("device_class", sa.String(100), nullable=False, index=True),
        sa.Column("state", sa.String(20), nullable=False, index=True),
        sa.Column("untuned_samples", JSON, nullable=True),
        sa.Column("tuned_samples", JSON, nullable=True),
        sa.Column("output_error", sa.Double(), nullable=True),
        sa.Column("applied", sa.Integer(), nullable=True),
        sa.Column("environment", JSON, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        *_lease(),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "events",
        sa.Column("id", BIG_ID, autoincrement=True, primary_key=True),
        sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=True, index=True),
        sa.Column("kind", sa.String(60), nullable=False),
        sa.Column("data", JSON, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sqlite_autoincrement=True,
    )


def _rounds() -> None:
    op.create_table(
        "rounds",
        sa.Column("id", BIG_ID, autoincrement=True, primary_key=True),
        sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("job_task_id", BIG_ID, sa.ForeignKey("job_tasks.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("baseline", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False, index=True),
        sa.Column("reason", JSON, nullable=True),
        sa.Column("cost_model_id", sa.String(40), nullable=True),
        sa.Column("metrics", JSON, nullable=True),
        sa.Column("best_before", sa.Double(), nullable=True),
        sa.Column("best_after", sa.Double(), nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        *_lease(),
        sa.UniqueConstraint("job_id", "number", name="uq_rounds_job_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "batches",
        sa.Column("id", BIG_ID, autoincrement=True, primary_key=True),
        sa.Column("round_id", BIG_ID, sa.ForeignKey("rounds.id", ondelete="CASCADE"), nullable=False, unique=True),
        sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("device_class", sa.String(100), nullable=False, index=True),
        sa.Column("state", sa.String(20), nullable=False, index=True),
        sa.Column("candidates", JSON, nullable=False),
        sa.Column("predictions", JSON, nullable=True),
        sa.Column("features_blob", sa.String(64), nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        *_lease(),
        sqlite_autoincrement=True,
    )


def _dataset() -> None:
    op.create_table(
        "cost_models",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("kind", sa.String(60), nullable=False),
        sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="SET NULL"), nullable=True, index=True),
        sa.Column("target_hash", sa.String(64), sa.ForeignKey("targets.hash"), nullable=False, index=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("features", sa.String(60), nullable=False),
        sa.Column("trained_on", sa.Integer(), nullable=False),
        sa.Column("trained_through", BIG_ID, nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("metrics", JSON, nullable=True),
        sa.Column("blob", sa.String(64), nullable=True),
        *_lease(),
    )
    op.create_table(
        "records",
        sa.Column("id", BIG_ID, autoincrement=True, primary_key=True),
        sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="SET NULL"), nullable=True, index=True),
        sa.Column("job_task_id", BIG_ID, sa.ForeignKey("job_tasks.id", ondelete="SET NULL"), nullable=True, index=True),
        sa.Column("batch_id", BIG_ID, sa.ForeignKey("batches.id", ondelete="SET NULL"), nullable=True),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("workload_hash", sa.String(64), sa.ForeignKey("workloads.hash"), nullable=False),
        sa.Column("target_hash", sa.String(64), sa.ForeignKey("targets.hash"), nullable=False),
        sa.Column("sketch_hash", sa.String(64), sa.ForeignKey("sketches.hash"), nullable=True),
        sa.Column("decisions", JSON, nullable=False),
        sa.Column("samples", JSON, nullable=False),
        sa.Column("latency", sa.Double(), nullable=True),
        sa.Column("failure", sa.String(30), nullable=True),
        sa.Column("message", sa.String(2000), nullable=False),
        sa.Column("build_seconds", sa.Double(), nullable=False),
        sa.Column("run_seconds", sa.Double(), nullable=False),
        sa.Column("environment", JSON, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.UniqueConstraint("batch_id", "index", name="uq_records_batch_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_records_best", "records", ["workload_hash", "target_hash", "latency"])
    op.create_table(
        "schedules",
        sa.Column("workload_hash", sa.String(64), sa.ForeignKey("workloads.hash"), primary_key=True),
        sa.Column("target_hash", sa.String(64), sa.ForeignKey("targets.hash"), primary_key=True),
        sa.Column("simulated", sa.Boolean(), primary_key=True),
        sa.Column("record_id", BIG_ID, sa.ForeignKey("records.id"), nullable=False),
        sa.Column("latency", sa.Double(), nullable=False),
        sa.Column("trace", JSON, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
    )
