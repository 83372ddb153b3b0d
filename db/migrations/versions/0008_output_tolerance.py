"""The largest error that counted as right when a tuned model was compared with the untuned one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column; existing evaluations had 0.01."""
    op.add_column("evaluations", sa.Column("output_tolerance", sa.Double(), nullable=True))
