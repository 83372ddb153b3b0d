"""What a model's preparation was to be and is not."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add the column; of existing models nothing is known."""
    op.add_column("models", sa.Column("note", sa.String(1000), nullable=True))
