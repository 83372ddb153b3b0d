"""Rough latencies of default schedules: from a job's first moments until the first rounds of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Job, JobTask, WorkloadRow

MAX_TASKS_PER_BATCH = 128
"""Tasks that one batch asks for. A worker keeps as many libraries."""

SOON = 40
"""Tasks that were given schedules when their job was prepared: so many have their first rounds within twenty seconds.
Nothing is timed roughly before."""


def wanted(session: Session, job: Job, besides: JobTask) -> Sequence[tuple[str, str]]:
    """Workloads and the blobs of their modules of which a job knows nothing yet, those that run soonest first.

    Args:
        besides: a task that is being measured anyway.
    """
    answered = sa.select(sa.func.count()).where(JobTask.job_id == job.id, JobTask.answer.is_not(None))
    if 0 < (session.scalar(answered) or 0) <= SOON:
        return []
    query = unknown(job.id).where(JobTask.id != besides.id)
    found = session.execute(
        query.with_only_columns(WorkloadRow.hash, WorkloadRow.module_blob)
        .order_by(WorkloadRow.flops, JobTask.position)
        .limit(MAX_TASKS_PER_BATCH)
    )
    return [(workload, blob) for workload, blob in found]


def unknown(job_id: str) -> sa.Select[Any]:
    """Direct tasks without any latency, joined with their workloads."""
    return (
        sa.select(JobTask)
        .join(WorkloadRow, JobTask.workload_hash == WorkloadRow.hash)
        .where(
            JobTask.job_id == job_id,
            JobTask.tunable,
            JobTask.alternative_of.is_(None),
            JobTask.untuned_seconds.is_(None),
            JobTask.best_seconds.is_(None),
            JobTask.rough_seconds.is_(None),
        )
    )
