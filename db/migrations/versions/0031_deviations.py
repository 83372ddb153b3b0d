"""How sure the cost model was of each candidate of a batch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Add the column; nobody kept it of earlier batches."""
    op.add_column("batches", sa.Column("deviations", JSON, nullable=True))
