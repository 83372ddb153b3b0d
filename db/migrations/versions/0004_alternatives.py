"""Tasks that are alternatives of others, and jobs without Winograd."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

TABLES = ("model_tasks", "job_tasks")


def upgrade() -> None:
    """Add the columns; no existing task is an alternative, and existing jobs had no Winograd."""
    for table in TABLES:
        op.add_column(table, sa.Column("alternative_of", sa.String(length=64), nullable=True))
    op.add_column("jobs", sa.Column("winograd", sa.Boolean(), nullable=False, server_default=sa.false()))
