"""Imports of records, and which records came with one."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)

revision = "0027"
down_revision = "0026"

IMPORTED = sa.text("origin = 'imported'")


def upgrade() -> None:
    """Add the table and the columns; existing records were measured here."""
    op.create_table(
        "record_imports",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("file_hash", sa.String(64), nullable=False),
        sa.Column("blob", sa.String(64), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("manifest", JSON, nullable=True),
        sa.Column("result", JSON, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("dispatched", sa.Integer(), nullable=False),
        sa.Column("deadline", TIME, nullable=True),
        sa.Column("worker", sa.String(200), nullable=True),
        sa.Column("error", JSON, nullable=True),
        sa.Column("created_at", TIME, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_record_imports"),
    )
    op.create_index("ix_record_imports_state", "record_imports", ["state"])
    op.create_index("ix_record_imports_owner_created_at", "record_imports", ["owner", "created_at"])
    op.add_column("records", sa.Column("origin", sa.String(20), nullable=False, server_default="measured"))
    op.add_column("records", sa.Column("content", sa.String(64), nullable=True))
    op.add_column("records", sa.Column("measured_at", TIME, nullable=True))
    op.add_column("records", sa.Column("import_id", sa.String(40), nullable=True))
    op.create_index("ix_records_content_id", "records", ["content", "id"])
    where: dict[str, Any] = {"sqlite_where": IMPORTED, "postgresql_where": IMPORTED}
    op.create_index("uq_records_imported", "records", ["content"], unique=True, **where)
    op.create_index("ix_records_import_id_id", "records", ["import_id", "id"], **where)
    op.create_index("ix_records_origin_id", "records", ["origin", "id"], **where)
