"""Removal of old jobs and events. Records are the dataset: they stay unless somebody asks for their removal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from typing import cast

import sqlalchemy as sa
from sqlalchemy.engine import CursorResult
from sqlalchemy.orm import Session

from db.models import Event, Job, Record, Schedule
from db.repositories import events
from tunesmith.states import JobState, is_final

OVER = tuple(state for state in JobState if is_final(state))
KEPT_EVENTS = ("champion_adopted",)
"""Kinds that a job's curve is made of."""


def old_jobs(session: Session, before: dt.datetime, limit: int | None = None) -> Sequence[str]:
    """Ids of jobs that were over before a time, oldest first."""
    query = sa.select(Job.id).where(Job.state.in_(OVER), Job.finished_at < before)
    return session.scalars(query.order_by(Job.finished_at, Job.id).limit(limit)).all()


def records_of(session: Session, jobs: Collection[str]) -> int:
    """How many records of some jobs may be removed: a champion's stays."""
    return session.scalar(sa.select(sa.func.count()).select_from(Record).where(*_removable(jobs))) or 0


def delete_jobs(session: Session, jobs: Collection[str], *, records: bool) -> int:
    """Remove jobs with their tasks, rounds, batches and events; the number of records that went with them.

    Args:
        records: whether to remove their records, too, but for champions'. Otherwise those belong to no job from now on.
    """
    removed = 0
    if records:
        removed = cast("CursorResult[object]", session.execute(sa.delete(Record).where(*_removable(jobs)))).rowcount
    for job in session.scalars(sa.select(Job).where(Job.id.in_(jobs), Job.state.in_(OVER))):
        session.delete(job)
        events.append(session, "job_deleted", None, id=job.id)
    session.flush()
    return removed


def _removable(jobs: Collection[str]) -> tuple[sa.ColumnElement[bool], ...]:
    return Record.job_id.in_(jobs), ~sa.exists().where(Schedule.record_id == Record.id)


def old_events(session: Session, before: dt.datetime) -> int:
    """How many events are older than a time and may go."""
    last = _last_event(session, before)
    return session.scalar(sa.select(sa.func.count()).select_from(Event).where(*_idle(last))) or 0


def delete_events(session: Session, before: dt.datetime, limit: int) -> int:
    """Remove up to ``limit`` events older than a time, of jobs that are over or of none; the number of those."""
    some = sa.select(Event.id).where(*_idle(_last_event(session, before))).order_by(Event.id).limit(limit)
    keys = session.scalars(some).all()
    session.execute(sa.delete(Event).where(Event.id.in_(keys)))
    return len(keys)


def _last_event(session: Session, before: dt.datetime) -> int:
    """The greatest id of the events before a time. Ids grow with time, so it is found by halving."""
    low, high = 0, session.scalar(sa.select(sa.func.max(Event.id))) or 0
    while low < high:
        middle = (low + high + 1) // 2
        found = session.execute(
            sa.select(Event.id, Event.created_at).where(Event.id <= middle).order_by(Event.id.desc()).limit(1)
        ).first()
        if found is None or found.created_at < before:
            low = middle
        else:
            high = found.id - 1
    return low


def _idle(last: int) -> tuple[sa.ColumnElement[bool], ...]:
    open_jobs = sa.select(Job.id).where(Job.state.not_in(OVER))
    return (
        Event.id <= last,
        Event.kind.not_in(KEPT_EVENTS),
        sa.or_(Event.job_id.is_(None), Event.job_id.not_in(open_jobs)),
    )
