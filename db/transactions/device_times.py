"""The history of devices, in steps of some minutes, from their heartbeats."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import DeviceTime
from db.queries.device_times import KEPT, STEP, step_of
from db.transactions.upsert import insert_for
from tunesmith.messages import Calibration


def note(
    session: Session,
    device: str,
    now: dt.datetime,
    *,
    passed: float,
    busy: bool,
    health: str,
    found: Calibration | None,
) -> None:
    """Add the time since a device's last heartbeat to the step that ``now`` is in.

    Args:
        passed: seconds since that heartbeat; 0 where the device was away.
        busy: whether it measured in that time.
        health: the device's health now.
        found: the device's calibration now; None keeps what the step has.
    """
    start, seen = step_of(now), min(passed, STEP.total_seconds())
    told = {} if found is None else found.model_dump(include={"peak_flops", "noise_floor", "drift"})
    insert = insert_for(session, DeviceTime).values(
        device=device, start=start, seen=seen, busy=seen if busy else 0.0, health=health, **told
    )
    added = {name: getattr(DeviceTime, name) + getattr(insert.excluded, name) for name in ("seen", "busy")}
    session.execute(
        insert.on_conflict_do_update(index_elements=["device", "start"], set_={**added, "health": health, **told})
    )
    if not passed or passed > (now - start).total_seconds():  # the first heartbeat of a step, or after an absence
        old = sa.delete(DeviceTime).where(DeviceTime.device == device, DeviceTime.start < now - KEPT)
        session.execute(old)
