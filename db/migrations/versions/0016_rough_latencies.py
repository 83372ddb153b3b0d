"""The latency of a task's default schedule, roughly, before its first round."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Unknown for tasks that are there."""
    op.add_column("job_tasks", sa.Column("rough_seconds", sa.Double(), nullable=True))
