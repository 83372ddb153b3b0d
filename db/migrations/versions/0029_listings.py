"""Programs as text; the fastest trials of a job have an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Add the table and the index."""
    op.create_table(
        "listings",
        sa.Column("id", NUMBER, autoincrement=True, nullable=False),
        sa.Column("record_id", NUMBER, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("blob", sa.String(64), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("dispatched", sa.Integer(), nullable=False),
        sa.Column("deadline", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worker", sa.String(200), nullable=True),
        sa.Column("error", JSON, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_listings"),
        sa.ForeignKeyConstraint(
            ["record_id"], ["records.id"], name="fk_listings_record_id_records", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("record_id", name="uq_listings_record_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_listings_state", "listings", ["state"])
    condition = sa.text("job_id IS NOT NULL")
    op.create_index(
        "ix_records_job_id_latency_id",
        "records",
        ["job_id", "latency", "id"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
