"""The history of devices."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import DeviceTime

STEP = dt.timedelta(minutes=10)
KEPT = dt.timedelta(days=14)
HOUR = dt.timedelta(hours=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def step_of(now: dt.datetime) -> dt.datetime:
    """The beginning of the step that a time is in."""
    return now - (now - _EPOCH) % STEP


def of_device(session: Session, device: str, since: dt.datetime) -> Sequence[DeviceTime]:
    """A device's steps that begin after a time, oldest first."""
    query = sa.select(DeviceTime).where(DeviceTime.device == device, DeviceTime.start > since)
    return session.scalars(query.order_by(DeviceTime.start)).all()


def utilisation(session: Session, now: dt.datetime) -> dict[str, float]:
    """Share of the last hour, to the step, in which each device measured; those that were not seen have none."""
    query = sa.select(DeviceTime.device, sa.func.sum(DeviceTime.seen), sa.func.sum(DeviceTime.busy))
    query = query.where(DeviceTime.start > now - HOUR).group_by(DeviceTime.device)
    return {device: busy / seen for device, seen, busy in session.execute(query) if seen}
