"""Collecting jobs: how many labels of each task, and which part of its space."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Add the columns; existing jobs tune, and which of their trials were duplicates is not counted any more."""
    op.add_column("jobs", sa.Column("per_task", sa.Integer(), nullable=True))
    for name, default in (("shard", "0"), ("shards", "1")):
        op.add_column("jobs", sa.Column(name, sa.Integer(), nullable=False, server_default=default))
    for name in ("duplicates", "earlier_labels"):
        op.add_column("job_tasks", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
