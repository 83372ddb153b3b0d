"""Targets, devices and keys."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, Boolean, String
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import Base, Created


class TargetRow(Base, Created):
    """A canonical TVM target that something was tuned for."""

    __tablename__ = "targets"
    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    json: Mapped[dict[str, Any]]
    device_class: Mapped[str] = mapped_column(String(100), index=True)


class Device(Base, Created):
    """A measure worker's device, alive while ``seen_at`` is recent."""

    __tablename__ = "devices"
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    worker: Mapped[str] = mapped_column(String(200))
    host: Mapped[str] = mapped_column(String(200))
    device_classes: Mapped[list[Any]]
    target: Mapped[dict[str, Any]]
    cores: Mapped[int]
    simulated: Mapped[bool] = mapped_column(Boolean, default=False)
    environment: Mapped[dict[str, Any]]
    health: Mapped[str] = mapped_column(String(20), default="ok")  # DeviceHealth
    reason: Mapped[str] = mapped_column(String(500), default="")  # why it is not healthy
    calibration: Mapped[dict[str, Any] | None]  # messages.Calibration
    calibrations: Mapped[dict[str, Any]] = mapped_column(default=dict)  # by class: first [FLOP/s, bytes/s], latest
    busy: Mapped[bool] = mapped_column(Boolean, default=False)
    stopped: Mapped[bool] = mapped_column(Boolean, default=False)
    seen_at: Mapped[dt.datetime]
    worker_id: Mapped[str | None] = mapped_column(String(32))  # the enrolled worker that it is the device of
    sequence: Mapped[int] = mapped_column(BigInteger, default=0)  # number of the last heartbeat


class DeviceTime(Base):
    """What a device was like for some minutes: its health and calibration at the end, and how long it was seen and
    busy, in seconds."""

    __tablename__ = "device_times"
    device: Mapped[str] = mapped_column(String(200), primary_key=True)
    start: Mapped[dt.datetime] = mapped_column(primary_key=True)
    seen: Mapped[float] = mapped_column(default=0.0)
    busy: Mapped[float] = mapped_column(default=0.0)
    health: Mapped[str] = mapped_column(String(20))
    peak_flops: Mapped[float | None]
    noise_floor: Mapped[float | None]
    drift: Mapped[float | None]


class EnrolledWorker(Base, Created):
    """A measure worker whose reports are believed, named by its public key."""

    __tablename__ = "enrolled_workers"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    public_key: Mapped[str] = mapped_column(String(64))
    device_classes: Mapped[list[Any]] = mapped_column(default=list)  # classes that it may serve; empty: any
    enrolled_by: Mapped[str] = mapped_column(String(100))
    revoked_at: Mapped[dt.datetime | None]


class ReportRefusal(Base):
    """How many reports were refused for a reason."""

    __tablename__ = "report_refusals"
    reason: Mapped[str] = mapped_column(String(40), primary_key=True)
    count: Mapped[int]
    last_at: Mapped[dt.datetime]


class ApiKey(Base, Created):
    """A bearer key, hashed."""

    __tablename__ = "api_keys"
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    owner: Mapped[str] = mapped_column(String(100))
    scopes: Mapped[list[Any]]
    revoked: Mapped[bool] = mapped_column(Boolean, default=False)


class IdempotencyKey(Base, Created):
    """The stored answer to a POST that carried an Idempotency-Key."""

    __tablename__ = "idempotency_keys"
    owner: Mapped[str] = mapped_column(String(100), primary_key=True)
    route: Mapped[str] = mapped_column(String(100), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    status: Mapped[int]
    body: Mapped[dict[str, Any]]
