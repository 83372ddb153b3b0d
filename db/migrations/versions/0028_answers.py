"""The schedules of jobs that measure nothing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Add the column; no earlier job has any."""
    op.add_column("job_tasks", sa.Column("answer", sa.JSON(), nullable=True))
