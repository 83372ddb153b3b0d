"""Records are stored sooner: imported ones are in no index that never finds them, and some JSON stays text."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
INDEXES = (
    ("ix_records_content_id", ["content", "id"], "origin <> 'imported'"),
    ("ix_records_job_id_id", ["job_id", "id"], "job_id IS NOT NULL"),
    ("ix_records_job_task_id_latency_id", ["job_task_id", "latency", "id"], "job_task_id IS NOT NULL"),
    ("ix_records_worker_id", ["worker_id"], "worker_id IS NOT NULL"),
)


def upgrade() -> None:
    """Imported records have no job, no task and no worker; their unique index finds them by their content.

    PostgreSQL writes the table anew, for columns that no query looks into.
    """
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "ALTER TABLE records ALTER COLUMN samples TYPE JSON USING samples::json,"
            " ALTER COLUMN environment TYPE JSON USING environment::json"
        )
    for name, columns, condition in INDEXES:
        where = sa.text(condition)
        op.drop_index(name, "records")
        op.create_index(name, "records", columns, sqlite_where=where, postgresql_where=where)
    imported = sa.text("origin = 'imported'")
    op.create_index("ix_records_imported_id", "records", ["id"], sqlite_where=imported, postgresql_where=imported)
    op.drop_index("ix_records_origin_id", "records")
