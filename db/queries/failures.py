"""Why candidates of a job failed, counted."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Record


def by_class(session: Session, job_id: str, task_id: int | None = None) -> Sequence[tuple[str, int, int]]:
    """``(failure, count, id of the newest record)`` of a job's failed candidates, most frequent first; of one task's
    with ``task_id``."""
    count = sa.func.count()
    query = (
        sa.select(Record.failure, count, sa.func.max(Record.id))
        .where(Record.job_id == job_id, Record.failure.is_not(None))
        .group_by(Record.failure)
        .order_by(count.desc(), Record.failure)
    )
    if task_id is not None:
        query = query.where(Record.job_task_id == task_id)
    return [(str(failure), int(number), int(last)) for failure, number, last in session.execute(query)]


def messages(session: Session, ids: Sequence[int]) -> dict[int, str]:
    """What the records with these ids say."""
    found = session.execute(sa.select(Record.id, Record.message).where(Record.id.in_(ids)))
    return {row[0]: row[1] for row in found}
