"""A small store of texts for tuners of others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "cache_entries",
        sa.Column("id", NUMBER, autoincrement=True, nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("namespace", sa.String(60), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cache_entries"),
        sa.UniqueConstraint("owner", "namespace", "key", name="uq_cache_entries_owner"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_cache_entries_owner_namespace_id", "cache_entries", ["owner", "namespace", "id"])
    op.create_index("ix_cache_entries_owner_id", "cache_entries", ["owner", "id"])
