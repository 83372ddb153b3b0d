"""Tasks that keep their default schedules, and why. One task never ends its job."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import JobTask, Record
from db.queries.records import BLAMELESS
from db.transactions import events
from tunesmith.errors import MeasurementFailed
from tunesmith.events import TaskExhausted

REASON_LIMIT = 1000
MAX_FAILED_TRIALS = 64
"""Candidates of a task without a success after which no more are proposed: four rounds of the usual size."""


def keep_default(session: Session, task: JobTask, problem: dict[str, Any]) -> None:
    """Propose no more for a task, which keeps its default schedule or the best that it has.

    Args:
        problem: the problem object that says why.
    """
    note_reason(task, str(problem.get("detail", "")))
    task.exhausted = True
    events.append(session, TaskExhausted(task.id, task.name, problem), task.job_id)
    session.flush()


def note_reason(task: JobTask, reason: str) -> None:
    """Say why a task keeps its default schedule, unless it has a better one."""
    if task.best_record_id is None:
        task.reason = reason[:REASON_LIMIT].replace("\0", " ")  # PostgreSQL refuses a zero byte


def judge_failures(session: Session, task: JobTask) -> None:
    """Note why none of a task's candidates ran; after ``MAX_FAILED_TRIALS`` no more are proposed.

    Candidates that were not measured for want of a device do not count.
    """
    if not task.trials or task.failures < task.trials:
        return
    count = sa.func.count()
    query: Any = (
        sa.select(Record.failure, count, sa.func.max(Record.id))
        .where(Record.job_task_id == task.id, Record.sketch_hash.is_not(None), Record.failure.not_in(BLAMELESS))
        .group_by(Record.failure)
        .order_by(count.desc(), Record.failure)
    )
    found = session.execute(query).all()
    if not found:
        return
    failure, number, last = found[0]
    message = session.scalar(sa.select(Record.message).where(Record.id == last)) or ""
    failed = sum(row[1] for row in found)
    reason = f"none of its {failed} candidates ran; {number} of them: {failure}"
    reason += f", such as {message.strip().splitlines()[-1]}" if message.strip() else ""
    if failed >= MAX_FAILED_TRIALS and not task.exhausted:
        keep_default(session, task, MeasurementFailed(reason).problem())
    else:
        note_reason(task, reason)
