"""Rough latencies of default schedules: from a job's first moments until the first rounds of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Job, JobTask, WorkloadRow

MOST = 128
"""Tasks that one batch asks for. A worker keeps as many libraries."""


def wanted(session: Session, job: Job, besides: JobTask) -> Sequence[tuple[str, str]]:
    """Workloads and the blobs of their modules of which a job knows nothing yet, those that run soonest first.

    Args:
        besides: a task that is being measured anyway.
    """
    query = _unknown(job.id).where(JobTask.id != besides.id)
    found = session.execute(
        query.with_only_columns(WorkloadRow.hash, WorkloadRow.module_blob)
        .order_by(WorkloadRow.flops, JobTask.position)
        .limit(MOST)
    )
    return [(workload, blob) for workload, blob in found]


def store(session: Session, job_id: str, seconds: Mapping[str, float]) -> int:
    """Take in what was timed, in seconds by workload; how many tasks have a rough latency since.

    Tasks for which there was no time get what they would take at the speed of the others, and those without
    operations what the fastest one takes. Rows that others hold are left out: what they write is better.
    """
    query = _unknown(job_id).with_only_columns(JobTask, WorkloadRow.flops).order_by(JobTask.id)
    found = session.execute(query.with_for_update(of=JobTask, skip_locked=True)).all()
    timed = {task.id: (seconds[task.workload_hash], flops) for task, flops in found if task.workload_hash in seconds}
    if not timed:
        return 0
    took, done = sum(value for value, _ in timed.values()), sum(flops for _, flops in timed.values())
    least = min(value for value, _ in timed.values())
    for task, flops in found:
        value = timed.get(task.id)
        task.rough_seconds = value[0] if value is not None else max(least, flops * took / done if done else 0.0)
    session.flush()
    return len(found)


def _unknown(job_id: str) -> sa.Select[Any]:
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
