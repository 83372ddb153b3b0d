"""What devices were like over time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Add the table; it begins empty."""
    op.create_table(
        "device_times",
        sa.Column("device", sa.String(200), nullable=False),
        sa.Column("start", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("busy", sa.Double(), nullable=False),
        sa.Column("health", sa.String(20), nullable=False),
        sa.Column("peak_flops", sa.Double(), nullable=True),
        sa.Column("noise_floor", sa.Double(), nullable=True),
        sa.Column("drift", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("device", "start", name="pk_device_times"),
    )
