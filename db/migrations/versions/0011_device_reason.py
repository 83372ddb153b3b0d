"""Why a device is not healthy."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add ``devices.reason``."""
    op.add_column("devices", sa.Column("reason", sa.String(500), nullable=False, server_default=""))
