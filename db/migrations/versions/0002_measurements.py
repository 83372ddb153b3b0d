"""How a candidate was measured and confirmed, and what is known of a device's health."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Add the columns; existing rows get what was true of them."""
    op.add_column("records", sa.Column("device_seconds", sa.Double(), nullable=False, server_default=sa.text("0")))
    op.add_column("records", sa.Column("stopped", sa.String(length=20), nullable=True))
    op.add_column("records", sa.Column("duplicate", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("records", sa.Column("confirmation", JSON, nullable=True))
    op.add_column("devices", sa.Column("health", sa.String(length=20), nullable=False, server_default="ok"))
    op.add_column("devices", sa.Column("calibration", JSON, nullable=True))
