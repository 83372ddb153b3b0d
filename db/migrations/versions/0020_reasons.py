"""Why a task keeps its default schedule."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Add the column; existing tasks keep NULL: it is not known."""
    op.add_column("job_tasks", sa.Column("reason", sa.String(1000), nullable=True))
