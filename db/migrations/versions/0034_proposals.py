"""Candidates that are proposed from outside, and the share that they may have of a job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
WAITING = sa.text("measure IS true AND valid IS true AND batch_id IS NULL")
WAITING_SQLITE = sa.text("measure IS 1 AND valid IS 1 AND batch_id IS NULL")

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    """Add the tables, and the column; earlier jobs have the default share."""
    op.add_column("jobs", sa.Column("proposal_share", sa.Double(), nullable=False, server_default="0.25"))
    op.create_table(
        "proposal_sets",
        sa.Column("id", NUMBER, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(40), nullable=False),
        sa.Column("job_task_id", NUMBER, nullable=False),
        sa.Column("source", sa.String(20), nullable=False),
        sa.Column("author", sa.String(100), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("dispatched", sa.Integer(), nullable=False),
        sa.Column("deadline", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worker", sa.String(200), nullable=True),
        sa.Column("error", JSON, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_proposal_sets"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_proposal_sets_job_id_jobs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["job_task_id"], ["job_tasks.id"], name="fk_proposal_sets_job_task_id_job_tasks", ondelete="CASCADE"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_proposal_sets_job_id", "proposal_sets", ["job_id"])
    op.create_index("ix_proposal_sets_state", "proposal_sets", ["state"])
    op.create_table(
        "proposals",
        sa.Column("id", NUMBER, autoincrement=True, nullable=False),
        sa.Column("set_id", NUMBER, nullable=False),
        sa.Column("job_id", sa.String(40), nullable=False),
        sa.Column("job_task_id", NUMBER, nullable=False),
        sa.Column("sketch_hash", sa.String(64), nullable=False),
        sa.Column("decisions", JSON, nullable=False),
        sa.Column("given", sa.String(64), nullable=False),
        sa.Column("measure", sa.Boolean(), nullable=False),
        sa.Column("valid", sa.Boolean(), nullable=True),
        sa.Column("reason", sa.String(500), nullable=True),
        sa.Column("estimate", sa.Double(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("batch_id", NUMBER, nullable=True),
        sa.Column("index", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_proposals"),
        sa.ForeignKeyConstraint(
            ["set_id"], ["proposal_sets.id"], name="fk_proposals_set_id_proposal_sets", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_proposals_job_id_jobs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["job_task_id"], ["job_tasks.id"], name="fk_proposals_job_task_id_job_tasks", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["sketch_hash"], ["sketches.hash"], name="fk_proposals_sketch_hash_sketches"),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batches.id"], name="fk_proposals_batch_id_batches", ondelete="SET NULL"
        ),
        sa.UniqueConstraint("job_task_id", "given", "measure", name="uq_proposals_job_task_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_proposals_set_id", "proposals", ["set_id"])
    op.create_index("ix_proposals_batch_id", "proposals", ["batch_id"])
    op.create_index("ix_proposals_job_task_id_id", "proposals", ["job_task_id", "id"])
    op.create_index(
        "ix_proposals_waiting",
        "proposals",
        ["job_id", "job_task_id"],
        sqlite_where=WAITING_SQLITE,
        postgresql_where=WAITING,
    )
