"""The clocks of budgets, and what happens when the database's own clock jumps."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Device, Job
from db.models.work import ACTIVE
from tunesmith.states import OPEN_JOBS


def set_clock(session: Session, job: Job, stopped: bool, now: dt.datetime) -> None:
    """Stop or start the clock of a job's budget of seconds."""
    if stopped and job.paused_at is None:
        job.paused_at = now
    elif not stopped and job.paused_at is not None:
        job.paused_seconds += max(0.0, (now - job.paused_at).total_seconds())
        job.paused_at = None
    session.flush()


def move_clock(session: Session, seconds: float, since: float, now: dt.datetime) -> None:
    """The database's clock was put forward by ``seconds``, or back: move what is held against it along.

    Deadlines, heartbeats of devices, and the clocks of budgets move.

    Args:
        since: seconds for which that may have gone unnoticed; what was written by the new clock stays.
        now: by the new clock.
    """
    by, fresh = dt.timedelta(seconds=seconds), now - dt.timedelta(seconds=since)
    for kind, states in ACTIVE.items():
        query: sa.Select[Any] = sa.select(kind).where(kind.state.in_(states), kind.deadline.is_not(None))  # type: ignore[attr-defined]
        for row in session.scalars(query.with_for_update()):
            if passed_by(row.deadline, abs(seconds), now):
                row.deadline += by
    for device in session.scalars(sa.select(Device).with_for_update()):
        if not fresh <= device.seen_at <= now:
            device.seen_at += by
    for job in session.scalars(sa.select(Job).where(Job.state.in_(OPEN_JOBS)).with_for_update()):
        if not fresh <= job.created_at <= now:
            job.paused_seconds += seconds
            job.paused_at = job.paused_at + by if job.paused_at is not None else None
    session.flush()


def passed_by(deadline: dt.datetime, seconds: float, now: dt.datetime) -> bool:
    """True for a deadline that has passed, or is further ahead than ``seconds``: another clock set it."""
    return not now <= deadline <= now + dt.timedelta(seconds=seconds)
