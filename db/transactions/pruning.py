"""Removal of old jobs and events. Records are the dataset: they stay unless somebody asks for their removal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import cast

import sqlalchemy as sa
from sqlalchemy.engine import CursorResult
from sqlalchemy.orm import Session

from db.models import Event, Job, Record
from db.queries.by_time import last_before
from db.queries.expired import idle, removable
from db.transactions import events
from tunesmith.events import JobDeleted
from tunesmith.states import ENDED_JOBS


def delete_jobs(session: Session, jobs: Collection[str], *, records: bool) -> int:
    """Remove jobs with their tasks, rounds, batches and events; the number of records that went with them.

    Args:
        records: whether to remove their records, too, except for champions'. Otherwise those belong to no job from now
            on.
    """
    removed = 0
    if records:
        removed = cast("CursorResult[object]", session.execute(sa.delete(Record).where(*removable(jobs)))).rowcount
    for job in session.scalars(sa.select(Job).where(Job.id.in_(jobs), Job.state.in_(ENDED_JOBS))):
        session.delete(job)
        events.append(session, JobDeleted(job.id))
    session.flush()
    return removed


def delete_events(session: Session, before: dt.datetime, limit: int) -> int:
    """Remove up to ``limit`` events older than a time, of jobs that are over or of none; the number of those."""
    some = sa.select(Event.id).where(*idle(last_before(session, Event, before))).order_by(Event.id).limit(limit)
    keys = session.scalars(some).all()
    session.execute(sa.delete(Event).where(Event.id.in_(keys)))
    return len(keys)
