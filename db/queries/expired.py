"""Old jobs and events that may be removed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Event, Job, Record, Schedule
from db.queries.by_time import last_before
from tunesmith.event_kinds import EventKind
from tunesmith.states import ENDED_JOBS

KEPT_EVENTS = (EventKind.CHAMPION_ADOPTED.value,)
"""Kinds that a job's curve is made of."""


def old_jobs(session: Session, before: dt.datetime, limit: int | None = None) -> Sequence[str]:
    """Ids of jobs that were over before a time, oldest first."""
    query = sa.select(Job.id).where(Job.state.in_(ENDED_JOBS), Job.finished_at < before)
    return session.scalars(query.order_by(Job.finished_at, Job.id).limit(limit)).all()


def records_of(session: Session, jobs: Collection[str]) -> int:
    """How many records of some jobs may be removed: a champion's stays."""
    return session.scalar(sa.select(sa.func.count()).select_from(Record).where(*removable(jobs))) or 0


def removable(jobs: Collection[str]) -> tuple[sa.ColumnElement[bool], ...]:
    """Conditions on the records of some jobs that may be removed."""
    return Record.job_id.in_(jobs), ~sa.exists().where(Schedule.record_id == Record.id)


def old_events(session: Session, before: dt.datetime) -> int:
    """How many events are older than a time and may go."""
    last = last_before(session, Event, before)
    return session.scalar(sa.select(sa.func.count()).select_from(Event).where(*idle(last))) or 0


def idle(last: int) -> tuple[sa.ColumnElement[bool], ...]:
    """Conditions on the events up to an id that may go: no open job has them, and no curve is made of them."""
    open_jobs = sa.select(Job.id).where(Job.state.not_in(ENDED_JOBS))
    return (
        Event.id <= last,
        Event.kind.not_in(KEPT_EVENTS),
        sa.or_(Event.job_id.is_(None), Event.job_id.not_in(open_jobs)),
    )
