"""What records are asked for by: operator, processor, compiler and precision, with an index for each question."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

revision = "0024"
down_revision = "0023"

ENVIRONMENT = sa.column("environment", JSON)
RECORDS = sa.table("records", ENVIRONMENT, sa.column("processor", sa.String(100)), sa.column("build", sa.String(60)))
COLUMNS = (
    ("family", 100, ""),
    ("precision", 20, "float32"),
    ("processor", 100, ""),
    ("build", 60, ""),
)
INDEXES = ("workload_hash", "family", "processor")


def upgrade() -> None:
    """Add the columns, fill them from what the rows name, and add the indexes.

    Where a job is gone, its records count as float32.
    """
    for name, length, default in COLUMNS:
        op.add_column("records", sa.Column(name, sa.String(length), nullable=False, server_default=default))
    op.execute(
        "UPDATE records SET family = COALESCE((SELECT workloads.family FROM workloads "
        "WHERE workloads.hash = records.workload_hash), '')"
    )
    op.execute(
        "UPDATE records SET precision = COALESCE((SELECT jobs.precision FROM jobs WHERE jobs.id = records.job_id), "
        "'float32') WHERE job_id IS NOT NULL"
    )
    values = {
        name: sa.func.substr(sa.func.coalesce(ENVIRONMENT[member].as_string(), ""), 1, length)
        for name, member, length in (("processor", "cpu", 100), ("build", "tvm", 60))
    }
    op.get_bind().execute(sa.update(RECORDS).values(**values))
    for name in INDEXES:
        op.create_index(f"ix_records_{name}_id", "records", [name, "id"])
    _partial("failure_id", "failure IS NOT NULL", "failure", "id")
    _partial("precision_id", "precision <> 'float32'", "precision", "id")
    sqlite = op.get_bind().dialect.name == "sqlite"
    _partial("simulated_id", "simulated = 1" if sqlite else "simulated", "id")


def _partial(name: str, where: str, *columns: str) -> None:
    condition = sa.text(where)
    op.create_index(f"ix_records_{name}", "records", columns, sqlite_where=condition, postgresql_where=condition)
