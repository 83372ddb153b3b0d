"""How much a model's outputs depend on its inputs: without that, a comparison of outputs checks nothing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the column; existing evaluations keep NULL: their signal is not known."""
    op.add_column("evaluations", sa.Column("output_signal", sa.Double(), nullable=True))
