"""What was known of a job's tasks before it began."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column; existing jobs keep NULL."""
    op.add_column("job_tasks", sa.Column("known_seconds", sa.Double(), nullable=True))
