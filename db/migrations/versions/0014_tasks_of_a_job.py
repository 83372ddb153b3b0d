"""Tasks of a job are found by the unique index of job and workload alone.

With an index of the job only, PostgreSQL without statistics looks through all tasks of the job for each workload.
"""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Drop the index that the other covers."""
    op.drop_index("ix_job_tasks_job_id", "job_tasks")
