"""How fast other runtimes are with a job's model, on the same device."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the column; existing evaluations keep NULL: nothing was compared."""
    op.add_column("evaluations", sa.Column("references", JSON, nullable=True))
