"""Devices: those with a recent heartbeat."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Device
from tunesmith.messages import Calibration
from tunesmith.types import DeviceHealth, build_of, processor_of

_IDLE = {health.value for health in (DeviceHealth.QUARANTINED, DeviceHealth.RESTING, DeviceHealth.INCOMPATIBLE)}


def first_calibration(device: Device | None, device_class: str) -> tuple[float, float] | None:
    """FLOP/s and bytes/s of a device's first calibration for a class; None before there is one."""
    known = device.calibrations.get(device_class) if device is not None else None
    return (float(known["first"][0]), float(known["first"][1])) if known else None


def calibration_of(device: Device, device_class: str) -> Calibration | None:
    """What a device's latest calibration for a class found; None before there is one."""
    known = device.calibrations.get(device_class)
    return Calibration.model_validate(known["latest"]) if known else None


def of_worker(session: Session, worker_id: str, worker: str) -> Device | None:
    """The device that a process of an enrolled worker reported last; None when it reported none."""
    query = sa.select(Device).where(Device.worker_id == worker_id, Device.worker == worker)
    query = query.order_by(Device.seen_at.desc()).limit(1)
    return session.scalars(query.execution_options(populate_existing=True)).first()


def is_live(device: Device, timeout: float, now: dt.datetime) -> bool:
    """True when the device was seen within ``timeout`` seconds and did not say goodbye.

    What was seen in the future was seen by a clock that was put back since: nobody can tell when, so not lately.
    """
    return not device.stopped and abs(now - device.seen_at) <= dt.timedelta(seconds=timeout)


def live(
    session: Session, timeout: float, now: dt.datetime | None = None, device_class: str | None = None
) -> Sequence[Device]:
    """Live devices by name, of one class or of all."""
    now, lately = now or clock.now(session), dt.timedelta(seconds=timeout)
    seen = Device.seen_at.between(now - lately, now + lately)
    query = sa.select(Device).where(seen, ~Device.stopped).order_by(Device.name)
    rows = session.scalars(query.execution_options(populate_existing=True)).all()
    return [row for row in rows if device_class is None or device_class in row.device_classes]


def is_measurable(device: Device) -> bool:
    """False for a device that measures nothing for now: it is in quarantine, it rests, or its worker cannot read."""
    return device.health not in _IDLE


def measurable(session: Session, timeout: float, now: dt.datetime | None = None) -> Sequence[Device]:
    """Live devices that can measure now."""
    return [row for row in live(session, timeout, now) if is_measurable(row)]


def targets_of_kind(session: Session, timeout: float, kind: str) -> list[dict[str, Any]]:
    """Targets of the live devices of a kind, as short names mean them: whoever wants a simulated one names its tag."""
    found = live(session, timeout)
    return [dict(device.target) for device in found if device.target.get("kind") == kind and not device.simulated]


def makes(session: Session, device_class: str) -> set[tuple[str, str]]:
    """Processor and compiler of each device of a class, live or not; simulated ones have none."""
    rows = session.scalars(sa.select(Device).where(~Device.simulated))
    found = [row for row in rows if device_class in row.device_classes]
    return {(processor_of(row.environment), build_of(row.environment)) for row in found}


def calibration(session: Session, device_class: str) -> dict[str, Any] | None:
    """What calibration found of the device of a class that was seen last, live or not; None before there is any."""
    query = sa.select(Device).where(~Device.simulated).order_by(Device.seen_at.desc())
    able = [row for row in session.scalars(query) if device_class in row.device_classes]
    exact = (row.calibrations[device_class]["latest"] for row in able if device_class in row.calibrations)
    found = next(exact, None) or next((row.calibration for row in able if row.calibration is not None), None)
    return dict(found) if found is not None else None
