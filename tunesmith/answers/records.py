"""The performance dataset: records and workloads."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pydantic import Field

from tunesmith.answers.base import Answer
from tunesmith.answers.models import TensorBody
from tunesmith.dataset.manifest import Summary
from tunesmith.states import WorkState
from tunesmith.types import CacheState, FailureKind, Origin


class RecordBody(Answer):
    """A measured candidate of any job; what ``origin`` calls imported is a claim of whoever made the file.

    ``sketch`` is null for the default schedule. ``processor`` and ``build`` (TVM's version) are empty where its
    measurement did not say. ``job`` is null where the job is another user's, or deleted.
    """

    id: int
    workload: str
    family: str
    target: str
    device_class: str
    processor: str
    build: str
    precision: str
    cache: CacheState
    simulated: bool
    origin: Origin
    sketch: str | None
    decisions: list[Any]
    latency: float | None
    samples: list[float]
    failure: FailureKind | None
    revoked: bool = Field(description="It is believed no longer: nothing learns from it.")
    job: str | None
    created_at: dt.datetime


class RecordStats(Summary):
    """Counts of records; ``quarantined``: rows that the caller's imports refused, by reason, whatever the filter."""

    quarantined: dict[str, int] = {}


class RecordImportResult(Answer):
    """What became of the records of a file.

    ``known`` ones were there already. ``quarantined`` ones cannot be true, by reason, with an example of each.
    ``failures`` are part of what was added. ``workloads``, ``sketches`` and ``targets`` are new ones.
    """

    rows: int
    added: int
    failures: int
    known: int
    quarantined: dict[str, int]
    examples: dict[str, str]
    workloads: int
    sketches: int
    targets: int


class RecordImportBody(Answer):
    """A file of records on its way into the dataset.

    ``manifest`` is what the file says of itself. ``result`` counts its rows once ``state`` is done; ``error`` is a
    problem object once it is failed.
    """

    id: str
    name: str
    sha256: str
    size: int
    state: WorkState
    manifest: dict[str, Any] | None
    result: RecordImportResult | None
    error: dict[str, Any] | None
    created_at: dt.datetime
    finished_at: dt.datetime | None


class WorkloadBody(Answer):
    """A tensor program with records; ``args`` has the output last. ``records`` and ``failures`` leave out simulated
    devices."""

    hash: str
    name: str
    family: str
    flops: float
    args: list[TensorBody]
    records: int
    failures: int
    created_at: dt.datetime


class WorkloadGroup(Answer):
    """Records of a workload on one target in one precision."""

    target: str
    device_class: str
    precision: str
    records: int
    failures: int


class TargetBest(Answer):
    """The champion's latency on a target; ``cache``: where its runs found their arguments."""

    target: str
    device_class: str
    cache: CacheState
    latency: float


class WorkloadDetail(WorkloadBody):
    """One workload: its records by target and precision, and the best schedules, fastest first."""

    groups: list[WorkloadGroup]
    best: list[TargetBest]
