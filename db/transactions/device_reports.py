"""What a device reports of itself."""

from __future__ import annotations

import datetime as dt

from sqlalchemy.orm import Session

from db import clock
from db.models import Device
from db.queries.devices import first_calibration, is_live
from db.transactions import device_times, events
from db.transactions.upsert import insert_for
from tunesmith.events import DeviceHealthChanged, DeviceJoined, DeviceLeft
from tunesmith.messages import DeviceReport
from tunesmith.types import DeviceHealth


def store(
    session: Session,
    message: DeviceReport,
    timeout: float,
    now: dt.datetime | None = None,
    *,
    worker_id: str | None = None,
    sequence: int = 0,
) -> None:
    """Store a heartbeat; a device that was unknown, stopped or silent for ``timeout`` seconds is an event.

    So is a change of its health.

    Args:
        worker_id: the enrolled worker that reports; another one's calibrations of the device are forgotten.
        sequence: number of the report.
    """
    now = now or clock.now(session)
    old = session.get(Device, message.name, populate_existing=True)
    was_live = old is not None and is_live(old, timeout, now)
    before = old.health if old is not None else DeviceHealth.OK.value
    last_seen, worked = (old.seen_at, old.busy) if was_live and old is not None else (now, False)
    found = message.calibration
    # A worker that starts has none yet: what is known of the device stays.
    calibration = found.model_dump(mode="json") if found is not None else (old.calibration if old is not None else None)
    same = old if old is not None and old.worker_id == worker_id else None
    known = dict(same.calibrations) if same is not None else {}
    if calibration is not None and found is not None and message.calibrated:
        first = first_calibration(same, message.calibrated) or (found.peak_flops, found.bandwidth)
        known[message.calibrated] = {"first": list(first), "latest": calibration}
    values = {
        "worker": message.worker,
        "host": message.host,
        "device_classes": message.device_classes,
        "target": message.target,
        "cores": message.cores,
        "simulated": message.simulated,
        "environment": message.environment,
        "busy": message.busy,
        "stopped": message.stopping,
        "seen_at": now,
        "health": message.health.value,
        "reason": message.reason,
        "calibration": calibration,
        "calibrations": known,
        "worker_id": worker_id,
        "sequence": sequence,
    }
    statement = insert_for(session, Device).values(name=message.name, created_at=now, **values)
    session.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))
    device_times.note(
        session,
        message.name,
        now,
        passed=max(0.0, (now - last_seen).total_seconds()),
        busy=worked,
        health=message.health.value,
        found=found,
    )
    if was_live == message.stopping:
        said = DeviceLeft if message.stopping else DeviceJoined
        events.append(session, said(message.name, message.host, message.device_classes))
    if before != message.health.value:
        drift = found.drift if found is not None else None
        changed = DeviceHealthChanged(message.name, before, message.health.value, drift, message.reason or None)
        events.append(session, changed)
