"""The precision of the job that a cost model learned from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the column, and fill it from the jobs; where a job is gone, its model counts as one of float32."""
    op.add_column("cost_models", sa.Column("precision", sa.String(20), nullable=False, server_default="float32"))
    op.execute(
        "UPDATE cost_models SET precision = (SELECT precision FROM jobs WHERE jobs.id = cost_models.job_id) "
        "WHERE job_id IS NOT NULL"
    )
