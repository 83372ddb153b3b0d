"""Measure workers with keys of their own: who holds a batch, who reported a record, and what is no longer believed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0013"
down_revision = "0012"

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
RANDOM = {"sqlite": "lower(hex(randomblob(16)))", "postgresql": "md5(random()::text || clock_timestamp()::text)"}
HELD = ("batches", "evaluations")


def upgrade() -> None:
    """Add the table and the columns; work that is under way gets secrets, and is handed out again."""
    op.create_table(
        "enrolled_workers",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("public_key", sa.String(64), nullable=False),
        sa.Column("device_classes", JSON, nullable=False),
        sa.Column("enrolled_by", sa.String(100), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_enrolled_workers"),
    )
    for table in HELD:
        op.add_column(table, sa.Column("secret", sa.String(32), nullable=False, server_default=""))
        op.add_column(table, sa.Column("holders", JSON, nullable=False, server_default="{}"))
        op.add_column(table, sa.Column("reported", sa.BigInteger(), nullable=False, server_default="0"))
        op.execute(f"UPDATE {table} SET secret = {RANDOM[op.get_bind().dialect.name]}")
    op.add_column("devices", sa.Column("worker_id", sa.String(32), nullable=True))
    op.add_column("devices", sa.Column("sequence", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("records", sa.Column("worker_id", sa.String(32), nullable=True))
    op.add_column("records", sa.Column("trace", JSON, nullable=True))
    op.add_column("records", sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index("ix_records_worker_id", "records", ["worker_id"])
