"""Targets, devices, workers, queues, cost models, workloads and keys."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import BaseModel, Field

from tunesmith.answers.base import Answer
from tunesmith.messages import Calibration
from tunesmith.states import WorkState
from tunesmith.types import CacheState, DeviceHealth
from tunesmith.unmeasured import Source
from tunesmith.worker_logs import Level


class TargetBody(BaseModel):
    """A target that something was tuned for, or that a live device has."""

    hash: str
    json_: dict[str, Any] = Field(serialization_alias="json")
    device_class: str
    live_devices: int


class DeviceBody(Answer):
    """A measure worker's device.

    ``health`` is ``ok``, ``drifting``, ``quarantined``, ``resting`` (it failed again and again) or ``incompatible``
    (its worker is of another version); nothing is measured on the last three, and ``reason`` says why. ``calibration``
    is null until the device was used.
    """

    name: str
    worker: str
    host: str
    device_classes: list[str]
    target: dict[str, Any]
    cores: int
    simulated: bool
    environment: dict[str, Any]
    health: DeviceHealth
    reason: str
    calibration: Calibration | None
    busy: bool
    alive: bool
    seen_at: dt.datetime
    utilisation: float | None = Field(None, description="Share of the last hour in which it measured.")


class DeviceTimeBody(Answer):
    """What a device was like for ten minutes from ``start`` on.

    Health and calibration are those at their end. ``seen`` and ``busy``: seconds in which it was heard of,
    and measured.
    """

    start: dt.datetime
    seen: float
    busy: float
    health: DeviceHealth
    peak_flops: float | None
    noise_floor: float | None
    drift: float | None


class WorkerFailureBody(BaseModel):
    """Work that ended with a problem while a worker had it; ``created_at``: when the work came up."""

    kind: str
    row: str
    problem: dict[str, Any]
    created_at: dt.datetime


class WorkerBody(BaseModel):
    """A process that serves queues or a device, or that holds work.

    ``version`` is Tunesmith's, empty where the worker does not say. ``failures``: the newest ones of its work, for
    operators.
    """

    name: str
    roles: list[str]
    version: str = ""
    queues: list[str] = []
    alive: bool
    holds: int
    seen_at: dt.datetime | None
    failures: list[WorkerFailureBody] = []


class LogLineBody(Answer):
    """What a worker logged. ``at`` is by its own clock, ``process`` the id of the one that wrote it."""

    at: dt.datetime
    level: Level
    logger: str
    process: int
    text: str


class QueueBody(BaseModel):
    """A queue: messages in the broker (null when it does not answer), and rows that wait for or are in work."""

    name: str
    messages: int | None
    waiting: int
    running: int


class CostModelBody(Answer):
    """A trained cost model.

    ``job_id`` is null where it was trained for a target, or where its job is gone. ``trained_on`` counts its programs,
    and ``trained_through`` is the id of the last record among them.
    """

    id: str
    kind: str
    job_id: str | None
    target: str
    number: int
    state: WorkState
    features: str
    precision: str
    trained_on: int
    trained_through: int
    simulated: bool = Field(False, description="What a simulated device invented was in it.")
    metrics: dict[str, Any] | None
    error: dict[str, Any] | None
    created_at: dt.datetime


class WorkloadBest(BaseModel):
    """The champion of a workload on a target; ``cache``: where its runs found their arguments.

    Where there is none, that of the most similar workload of its family is given: ``source`` is ``rescaled``,
    ``relative`` its hash, ``trace`` and ``name`` are its own, and ``latency`` is scaled by the FLOPs. ``record`` and
    ``job`` are null where another user's job found it. ``program`` is the program whose blocks the trace names, as
    MetaSchedule's workloads hold it; null where it is a relative's.
    """

    workload: str
    name: str
    target: dict[str, Any]
    latency: float
    cache: CacheState
    trace: list[Any]
    program: str | None = None
    source: Source
    confidence: float
    relative: str | None
    record: int | None
    job: str | None
    updated_at: dt.datetime


class KeyBody(Answer):
    """A key without its secret."""

    id: str
    owner: str
    scopes: list[str]
    revoked: bool
    created_at: dt.datetime


class NewKeyBody(KeyBody):
    """A fresh key; ``key`` is shown this once."""

    key: str


class Check(BaseModel):
    """One part of readiness."""

    ok: bool
    ms: float
    detail: str = ""


class Health(BaseModel):
    """Whether the coordinator lives, and what it depends on."""

    status: Literal["ok", "degraded"]
    version: str
    checks: dict[str, Check] = {}


class EnrolledBody(Answer):
    """A measure worker whose reports are believed unless ``revoked_at`` is set; ``id`` comes of its public key."""

    id: str
    name: str
    device_classes: list[str]
    enrolled_by: str
    created_at: dt.datetime
    revoked_at: dt.datetime | None


class RevokedBody(BaseModel):
    """What a revocation changed: records believed no longer, champions that went, tasks of jobs that had them."""

    records: int
    champions: int
    tasks: int


class AuditBody(Answer):
    """Who did what: the owner and the key, null without a valid one; the route, and the path of what it was done to."""

    id: int
    owner: str | None
    key_id: str | None
    address: str
    action: str
    target: str
    status: int
    request_id: str
    created_at: dt.datetime
