"""By which tolerance a job's precision is chosen, and why it was."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Add the columns; existing jobs were told their precision."""
    op.add_column("jobs", sa.Column("tolerance", sa.Double(), nullable=False, server_default="0.01"))
    op.add_column("jobs", sa.Column("precision_reason", sa.String(1000), nullable=True))
