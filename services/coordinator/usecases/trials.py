"""What several routes say of trials and of failed candidates."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from db.models import Record
from db.queries import failures
from tunesmith.answers.jobs import FailureBody
from tunesmith.measuring.interval import recorded_interval


def renamed(row: Record) -> dict[str, Any]:
    """Fields of a trial that are called differently than its columns, or follow from them."""
    return {
        "task": row.job_task_id,
        "batch": row.batch_id,
        "workload": row.workload_hash,
        "sketch": row.sketch_hash,
        "interval": recorded_interval(row.samples, row.environment),
    }


def failures_of(session: Session, job_id: str, task_id: int | None = None) -> list[FailureBody]:
    """How many candidates of a job, or of one task, failed, by class, most frequent first."""
    found = failures.by_class(session, job_id, task_id)
    said = failures.messages(session, [last for _, _, last in found])
    return [FailureBody(failure=kind, count=count, message=said.get(last, "")) for kind, count, last in found]
