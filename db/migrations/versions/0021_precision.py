"""The precision of a job's arithmetic."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Add the column; existing jobs were of float32."""
    op.add_column("jobs", sa.Column("precision", sa.String(20), nullable=False, server_default="float32"))
