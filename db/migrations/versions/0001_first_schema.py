"""The first schema."""

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


def downgrade() -> None:
    """Drop every table, dependents first."""
    for table in reversed(TABLES):
        op.drop_table(table)


FLEET = ("targets", "devices", "api_keys", "idempotency_keys")
MODELS = ("models", "workloads", "model_tasks", "sketches")
JOBS = ("jobs", "families", "job_tasks", "evaluations", "events")
ROUNDS = ("rounds", "batches")
TABLES = (*FLEET, *MODELS, *JOBS, *ROUNDS, "cost_models", "records", "schedules")


def _lease() -> tuple[Any, ...]:
    return (
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("dispatched", sa.Integer(), nullable=False),
        sa.Column("deadline", TIME, nullable=True),
        sa.Column("worker", sa.String(length=200), nullable=True),
        sa.Column("error", JSON, nullable=True),
    )


def _fleet() -> None:
    op.create_table(
        "targets",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("json", JSON, nullable=False),
        sa.Column("device_class", sa.String(length=100), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_targets"),
    )
    op.create_index("ix_targets_device_class", "targets", ["device_class"])
    op.create_table(
        "devices",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("worker", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("device_classes", JSON, nullable=False),
        sa.Column("target", JSON, nullable=False),
        sa.Column("cores", sa.Integer(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("environment", JSON, nullable=False),
        sa.Column("busy", sa.Boolean(), nullable=False),
        sa.Column("stopped", sa.Boolean(), nullable=False),
        sa.Column("seen_at", TIME, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_devices"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("sha256", name="uq_api_keys_sha256"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("route", sa.String(length=100), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", JSON, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "route", "key", name="pk_idempotency_keys"),
    )


def _models() -> None:
    op.create_table(
        "models",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.Column("operator", sa.String(length=500), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("inputs_key", sa.String(length=500), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("inputs", JSON, nullable=True),
        sa.Column("module_blob", sa.String(length=64), nullable=True),
        sa.Column("params_blob", sa.String(length=64), nullable=True),
        sa.Column("pipeline", sa.String(length=60), nullable=True),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        *_lease(),
        sa.PrimaryKeyConstraint("id", name="pk_models"),
        sa.UniqueConstraint("sha256", "inputs_key", "owner", name="uq_models_sha256"),
    )
    op.create_index("ix_models_sha256", "models", ["sha256"])
    op.create_table(
        "workloads",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("family", sa.String(length=100), nullable=False),
        sa.Column("args", JSON, nullable=False),
        sa.Column("flops", sa.Double(), nullable=False),
        sa.Column("module_blob", sa.String(length=64), nullable=False),
        sa.Column("metaschedule_blob", sa.String(length=64), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_workloads"),
    )
    op.create_table(
        "model_tasks",
        sa.Column("model_id", sa.String(length=40), nullable=False),
        sa.Column("workload_hash", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_model_tasks_model_id_models", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["workload_hash"], ["workloads.hash"], name="fk_model_tasks_workload_hash_workloads"),
        sa.PrimaryKeyConstraint("model_id", "workload_hash", name="pk_model_tasks"),
    )
    op.create_table(
        "sketches",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("workload_hash", sa.String(length=64), nullable=False),
        sa.Column("body", JSON, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(["workload_hash"], ["workloads.hash"], name="fk_sketches_workload_hash_workloads"),
        sa.PrimaryKeyConstraint("hash", name="pk_sketches"),
    )
    op.create_index("ix_sketches_workload_hash", "sketches", ["workload_hash"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("model_id", sa.String(length=40), nullable=False),
        sa.Column("target_spec", sa.String(length=2000), nullable=False),
        sa.Column("target_hash", sa.String(length=64), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("budget_trials", sa.Integer(), nullable=True),
        sa.Column("budget_seconds", sa.Double(), nullable=True),
        sa.Column("stop_when_converged", sa.Boolean(), nullable=False),
        sa.Column("search", sa.String(length=60), nullable=False),
        sa.Column("cost_model", sa.String(length=60), nullable=False),
        sa.Column("allocator", sa.String(length=60), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("warm_start", sa.Boolean(), nullable=False),
        sa.Column("verify", sa.Boolean(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("paused_seconds", sa.Double(), nullable=False),
        sa.Column("paused_at", TIME, nullable=True),
        sa.Column("stop_reason", sa.String(length=60), nullable=True),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        *_lease(),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_jobs_model_id_models"),
        sa.ForeignKeyConstraint(["target_hash"], ["targets.hash"], name="fk_jobs_target_hash_targets"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_model_id", "jobs", ["model_id"])
    op.create_index("ix_jobs_state", "jobs", ["state"])
    op.create_table(
        "families",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_families_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_families"),
        sa.UniqueConstraint("job_id", "name", name="uq_families_job_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_families_job_id", "families", ["job_id"])
    op.create_table(
        "job_tasks",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("workload_hash", sa.String(length=64), nullable=False),
        sa.Column("family_id", BIG_ID, nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
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
        sa.ForeignKeyConstraint(["family_id"], ["families.id"], name="fk_job_tasks_family_id_families"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_tasks_job_id_jobs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["workload_hash"], ["workloads.hash"], name="fk_job_tasks_workload_hash_workloads"),
        sa.PrimaryKeyConstraint("id", name="pk_job_tasks"),
        sa.UniqueConstraint("job_id", "workload_hash", name="uq_job_tasks_job_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_job_tasks_job_id", "job_tasks", ["job_id"])
    op.create_table(
        "evaluations",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("device_class", sa.String(length=100), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("untuned_samples", JSON, nullable=True),
        sa.Column("tuned_samples", JSON, nullable=True),
        sa.Column("output_error", sa.Double(), nullable=True),
        sa.Column("applied", sa.Integer(), nullable=True),
        sa.Column("environment", JSON, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        *_lease(),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_evaluations_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_evaluations"),
        sa.UniqueConstraint("job_id", name="uq_evaluations_job_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_evaluations_device_class", "evaluations", ["device_class"])
    op.create_index("ix_evaluations_state", "evaluations", ["state"])
    op.create_table(
        "events",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=True),
        sa.Column("kind", sa.String(length=60), nullable=False),
        sa.Column("data", JSON, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_events_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_job_id", "events", ["job_id"])


def _rounds() -> None:
    op.create_table(
        "rounds",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("job_task_id", BIG_ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("baseline", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("reason", JSON, nullable=True),
        sa.Column("cost_model_id", sa.String(length=40), nullable=True),
        sa.Column("metrics", JSON, nullable=True),
        sa.Column("best_before", sa.Double(), nullable=True),
        sa.Column("best_after", sa.Double(), nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        *_lease(),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_rounds_job_id_jobs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["job_task_id"], ["job_tasks.id"], name="fk_rounds_job_task_id_job_tasks", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_rounds"),
        sa.UniqueConstraint("job_id", "number", name="uq_rounds_job_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_rounds_job_id", "rounds", ["job_id"])
    op.create_index("ix_rounds_job_task_id", "rounds", ["job_task_id"])
    op.create_index("ix_rounds_state", "rounds", ["state"])
    op.create_table(
        "batches",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("round_id", BIG_ID, nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("device_class", sa.String(length=100), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("candidates", JSON, nullable=False),
        sa.Column("predictions", JSON, nullable=True),
        sa.Column("features_blob", sa.String(length=64), nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        *_lease(),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_batches_job_id_jobs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name="fk_batches_round_id_rounds", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
        sa.UniqueConstraint("round_id", name="uq_batches_round_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_batches_device_class", "batches", ["device_class"])
    op.create_index("ix_batches_job_id", "batches", ["job_id"])
    op.create_index("ix_batches_state", "batches", ["state"])


def _dataset() -> None:
    op.create_table(
        "cost_models",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=60), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=True),
        sa.Column("target_hash", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("features", sa.String(length=60), nullable=False),
        sa.Column("trained_on", sa.Integer(), nullable=False),
        sa.Column("trained_through", BIG_ID, nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("metrics", JSON, nullable=True),
        sa.Column("blob", sa.String(length=64), nullable=True),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        *_lease(),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_cost_models_job_id_jobs", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["target_hash"], ["targets.hash"], name="fk_cost_models_target_hash_targets"),
        sa.PrimaryKeyConstraint("id", name="pk_cost_models"),
    )
    op.create_index("ix_cost_models_job_id", "cost_models", ["job_id"])
    op.create_index("ix_cost_models_target_hash", "cost_models", ["target_hash"])
    op.create_table(
        "records",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=True),
        sa.Column("job_task_id", BIG_ID, nullable=True),
        sa.Column("batch_id", BIG_ID, nullable=True),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("workload_hash", sa.String(length=64), nullable=False),
        sa.Column("target_hash", sa.String(length=64), nullable=False),
        sa.Column("sketch_hash", sa.String(length=64), nullable=True),
        sa.Column("decisions", JSON, nullable=False),
        sa.Column("samples", JSON, nullable=False),
        sa.Column("latency", sa.Double(), nullable=True),
        sa.Column("failure", sa.String(length=30), nullable=True),
        sa.Column("message", sa.String(length=2000), nullable=False),
        sa.Column("build_seconds", sa.Double(), nullable=False),
        sa.Column("run_seconds", sa.Double(), nullable=False),
        sa.Column("environment", JSON, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_records_batch_id_batches", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_records_job_id_jobs", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(
            ["job_task_id"], ["job_tasks.id"], name="fk_records_job_task_id_job_tasks", ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["sketch_hash"], ["sketches.hash"], name="fk_records_sketch_hash_sketches"),
        sa.ForeignKeyConstraint(["target_hash"], ["targets.hash"], name="fk_records_target_hash_targets"),
        sa.ForeignKeyConstraint(["workload_hash"], ["workloads.hash"], name="fk_records_workload_hash_workloads"),
        sa.PrimaryKeyConstraint("id", name="pk_records"),
        sa.UniqueConstraint("batch_id", "index", name="uq_records_batch_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_records_best", "records", ["workload_hash", "target_hash", "latency"])
    op.create_index("ix_records_job_id", "records", ["job_id"])
    op.create_index("ix_records_job_task_id", "records", ["job_task_id"])
    op.create_table(
        "schedules",
        sa.Column("workload_hash", sa.String(length=64), nullable=False),
        sa.Column("target_hash", sa.String(length=64), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("record_id", BIG_ID, nullable=False),
        sa.Column("latency", sa.Double(), nullable=False),
        sa.Column("trace", JSON, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["records.id"], name="fk_schedules_record_id_records"),
        sa.ForeignKeyConstraint(["target_hash"], ["targets.hash"], name="fk_schedules_target_hash_targets"),
        sa.ForeignKeyConstraint(["workload_hash"], ["workloads.hash"], name="fk_schedules_workload_hash_workloads"),
        sa.PrimaryKeyConstraint("workload_hash", "target_hash", "simulated", name="pk_schedules"),
    )
