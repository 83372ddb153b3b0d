"""How a model was prepared, the variants of a model that was prepared otherwise, and jobs without fast math."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

PLAIN = "tunesmith.prepare/1"
"""How every model was prepared until now."""
SAME = ["sha256", "inputs_key", "owner"]
JOBS_OF_VARIANTS = """
    UPDATE jobs SET model_id = (SELECT variant_of FROM models WHERE models.id = jobs.model_id)
    WHERE model_id IN (SELECT id FROM models WHERE variant_of IS NOT NULL)
"""
TASKS_OF_VARIANTS = """
    DELETE FROM model_tasks WHERE model_id IN (SELECT id FROM models WHERE variant_of IS NOT NULL)
"""


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


def downgrade() -> None:
    """Drop the variants, whose jobs become those of their models, and the columns."""
    with op.batch_alter_table("jobs") as batch:
        batch.drop_column("fast_math")
    op.execute(JOBS_OF_VARIANTS)
    op.execute(TASKS_OF_VARIANTS)  # no cascade: foreign keys are off while SQLite's tables are rebuilt
    op.execute("DELETE FROM models WHERE variant_of IS NOT NULL")
    op.drop_index("ix_models_variant_of", "models")
    with op.batch_alter_table("models") as batch:
        batch.drop_constraint("fk_models_variant_of_models", type_="foreignkey")
        batch.drop_constraint("uq_models_sha256", type_="unique")
        batch.drop_column("variant_of")
        batch.drop_column("preparation")
        batch.add_column(sa.Column("pipeline", sa.String(length=60), nullable=True))
        batch.create_unique_constraint("uq_models_sha256", SAME)
