"""Columns for what was read out of JSON: a record's device and caches, and since when a round's champion leads."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

revision = "0018"
down_revision = "0017"

RECORDS = sa.table(
    "records",
    sa.column("environment", JSON),
    sa.column("simulated", sa.Boolean()),
    sa.column("cache", sa.String(20)),
)
ROUNDS = sa.table(
    "rounds",
    sa.column("id", sa.BigInteger()),
    sa.column("metrics", JSON),
    sa.column("champion_since", sa.DateTime(timezone=True)),
)


def upgrade() -> None:
    """Add the columns, and fill them from the JSON of existing rows."""
    op.add_column("records", sa.Column("simulated", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("records", sa.Column("cache", sa.String(20), nullable=False, server_default="warm"))
    op.add_column("rounds", sa.Column("champion_since", sa.DateTime(timezone=True), nullable=True))
    connection, environment = op.get_bind(), RECORDS.c.environment
    connection.execute(
        sa.update(RECORDS).values(simulated=sa.true()).where(environment["simulated"].as_boolean().is_(sa.true()))
    )
    connection.execute(
        sa.update(RECORDS).values(cache="streamed").where(environment["cache"].as_string() == "streamed")
    )
    since = ROUNDS.c.metrics["crowned_at"].as_string()
    found = connection.execute(sa.select(ROUNDS.c.id, since).where(since.is_not(None))).all()
    if found:
        connection.execute(
            sa.update(ROUNDS).values(champion_since=sa.bindparam("since")).where(ROUNDS.c.id == sa.bindparam("key")),
            [{"key": key, "since": dt.datetime.fromisoformat(text).astimezone(dt.timezone.utc)} for key, text in found],
        )
