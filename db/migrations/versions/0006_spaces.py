"""Jobs of a part of the design space."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column; existing jobs had every sketch."""
    op.add_column("jobs", sa.Column("space", sa.String(length=60), nullable=False, server_default="all"))
