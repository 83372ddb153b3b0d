"""Records are stored sooner: decisions stay text, and there is no index of imports."""

from __future__ import annotations

from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    """An import counts its records once, from the id on that was the last when it was queued.

    PostgreSQL writes the table anew. The one query that looks into decisions, for those of one task, casts them.
    """
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE records ALTER COLUMN decisions TYPE JSON USING decisions::json")
    op.drop_index("ix_records_import_id_id", "records")
