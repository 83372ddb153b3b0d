"""What the dashboard lists among millions of records has indexes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
FAILED = sa.text("failure IS NOT NULL")


def upgrade() -> None:
    """Add them; the index of a job's tasks gives way to one that also has the order."""
    op.create_index(
        "ix_records_job_id_failure_id",
        "records",
        ["job_id", "failure", "id"],
        sqlite_where=FAILED,
        postgresql_where=FAILED,
    )
    op.create_index("ix_records_job_task_id_latency_id", "records", ["job_task_id", "latency", "id"])
    op.drop_index("ix_records_job_task_id", "records")
    op.create_index(
        "ix_records_counted", "records", ["workload_hash", "target_hash", "precision", "simulated", "failure"]
    )
    op.create_index("ix_workloads_created_at_hash", "workloads", ["created_at", "hash"])
    op.create_index("ix_cost_models_created_at_id", "cost_models", ["created_at", "id"])
