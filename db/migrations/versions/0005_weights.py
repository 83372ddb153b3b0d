"""Which arguments of a task are weights of its model, how large those are, and champions by the state of the caches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
KEY = ["workload_hash", "target_hash", "simulated"]


def upgrade() -> None:
    """Add the columns; existing models have no known weights, and champions were measured warm."""
    op.add_column("models", sa.Column("params_size", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.add_column("model_tasks", sa.Column("weights", JSON, nullable=False, server_default="[]"))
    with op.batch_alter_table("schedules") as batch:
        batch.add_column(sa.Column("cache", sa.String(length=20), nullable=False, server_default="warm"))
        batch.drop_constraint("pk_schedules", type_="primary")
        batch.create_primary_key("pk_schedules", [*KEY, "cache"])
