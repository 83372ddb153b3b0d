"""The schedules of jobs that measure nothing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Add the column; no earlier job has any."""
    op.add_column("job_tasks", sa.Column("answer", JSON, nullable=True))
