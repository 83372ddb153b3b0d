"""Indexes that the planner's looks, lists, pages of one job, training and deletion need."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"

ADDED = {
    "models": ("state", "owner created_at"),
    "cost_models": ("state",),
    "jobs": ("owner created_at", "created_at"),
    "job_tasks": ("family_id",),
    "rounds": ("job_id state",),
    "records": ("job_id id", "target_hash id"),
    "events": ("job_id id",),
    "schedules": ("record_id",),
}
COVERED = ("rounds", "records", "events")
"""Their indexes of ``job_id`` alone are the first part of a new one."""


def _name(table: str, columns: str) -> str:
    return f"ix_{table}_{columns.replace(' ', '_')}"


def upgrade() -> None:
    """Add the indexes, and drop those that they cover."""
    for table, indexes in ADDED.items():
        for columns in indexes:
            op.create_index(_name(table, columns), table, columns.split())
    for table in COVERED:
        op.drop_index(_name(table, "job_id"), table)
