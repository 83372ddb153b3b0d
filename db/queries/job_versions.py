"""What tells whether an ended job is still as it was: anything that happens to it leaves an event or a record."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Event, Job, Model, Record
from tunesmith.event_kinds import EventKind
from tunesmith.states import ENDED_JOBS

Version = tuple[Any, ...]
OF_ALL = (EventKind.JOB_DELETED, EventKind.RECORDS_REVOKED)
"""Events of no job that say that records of any job were changed or are gone."""


def versions(session: Session, job_ids: Collection[str]) -> dict[str, Version]:
    """Versions of those of the jobs that have ended: two that are equal are of the same tasks, rounds and records.

    Events appear in the order of their ids, so what is read after its version is no older than that.
    """
    newest = (
        sa.select(sa.func.max(kind.id)).where(kind.job_id == Job.id).correlate(Job).scalar_subquery()
        for kind in (Event, Record)
    )
    query: Any = (
        sa.select(Job.id, *newest, Job.state, Job.name, Job.comment, Job.simulated, Model.name, Model.note)
        .join(Model, Job.model_id == Model.id)
        .where(Job.id.in_(job_ids), Job.state.in_(ENDED_JOBS))
    )
    return {job: tuple(version) for job, *version in session.execute(query)}


def changes_of_all(session: Session, after: int | None) -> tuple[int, int]:
    """Ids of the newest event, and of the newest of :data:`OF_ALL` after ``after``; 0 without any.

    ``after`` is None for somebody who has looked at nothing, and has missed nothing.
    """
    newest = sa.select(sa.func.max(Event.id))
    if after is None:
        return session.scalar(newest) or 0, 0
    kinds = [kind.value for kind in OF_ALL]
    changed = sa.select(sa.func.max(Event.id)).where(Event.id > after, Event.kind.in_(kinds))
    found = session.execute(sa.select(newest.scalar_subquery(), changed.scalar_subquery())).one()
    return found[0] or 0, found[1] or 0
