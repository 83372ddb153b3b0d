"""How far collecting jobs are."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Job, JobTask
from tunesmith.dataset.collecting import COLLECTED


class LabelCounts(NamedTuple):
    """Labels of a job's tasks.

    Attributes:
        own: those that the job found itself.
        total: with those of earlier collecting jobs.
        wanted: as many as the tasks can still have, ``total`` included.
    """

    own: int
    total: int
    wanted: int


def labels(session: Session, job_ids: Collection[str]) -> dict[str, LabelCounts]:
    """Counts by job, of the collecting ones among them."""
    own = JobTask.trials - JobTask.failures - JobTask.duplicates
    total = own + JobTask.earlier_labels
    over = sa.or_(JobTask.exhausted, total >= Job.per_task, Job.stop_reason == COLLECTED)
    wanted = sa.case((over, total), else_=Job.per_task)
    query = (
        sa.select(JobTask.job_id, *(sa.func.sum(each) for each in (own, total, wanted)))
        .join(Job, JobTask.job_id == Job.id)
        .where(Job.id.in_(job_ids), Job.per_task.is_not(None))
        .group_by(JobTask.job_id)
    )
    return {str(job): LabelCounts(*map(int, numbers)) for job, *numbers in session.execute(query)}
