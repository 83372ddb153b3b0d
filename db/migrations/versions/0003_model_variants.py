"""How a model was prepared, the variants of a model that was prepared otherwise, and jobs without fast math."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

PLAIN = "tunesmith.prepare/1"
"""How every model was prepared until now."""
SAME = ["sha256", "inputs_key", "owner"]


def upgrade() -> None:
    """Replace ``pipeline``, which told the same once a model was imported; existing jobs had no fast math."""
    with op.batch_alter_table("models") as batch:
        batch.drop_constraint("uq_models_sha256", type_="unique")
        batch.drop_column("pipeline")
        batch.add_column(sa.Column("preparation", sa.String(length=60), nullable=False, server_default=PLAIN))
        batch.add_column(sa.Column("variant_of", sa.String(length=40), nullable=True))
        batch.create_unique_constraint("uq_models_sha256", [*SAME, "preparation"])
        batch.create_foreign_key("fk_models_variant_of_models", "models", ["variant_of"], ["id"], ondelete="CASCADE")
    op.create_index("ix_models_variant_of", "models", ["variant_of"])
    op.add_column("jobs", sa.Column("fast_math", sa.Boolean(), nullable=False, server_default=sa.false()))
