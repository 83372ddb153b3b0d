"""Tags and comments of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Add the column and the table; no earlier job has any."""
    op.add_column("jobs", sa.Column("comment", sa.String(4000), nullable=False, server_default=""))
    op.create_table(
        "job_tags",
        sa.Column("job_id", sa.String(40), nullable=False),
        sa.Column("tag", sa.String(50), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "tag", name="pk_job_tags"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_tags_job_id_jobs", ondelete="CASCADE"),
    )
    op.create_index("ix_job_tags_tag_job_id", "job_tags", ["tag", "job_id"])
