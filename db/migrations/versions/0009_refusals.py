"""Calibrations by device class, and how many reports were refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0009"
down_revision = "0008"

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    """Add the column, empty until devices report again, and the table."""
    op.add_column("devices", sa.Column("calibrations", JSON, nullable=False, server_default="{}"))
    op.create_table(
        "report_refusals",
        sa.Column("reason", sa.String(40), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("reason", name="pk_report_refusals"),
    )
