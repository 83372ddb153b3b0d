"""The rows of a dataset file: records, and the targets, workloads, sketches and environments that they name by hash."""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunesmith.types import build_of, cache_state, processor_of

PUBLIC_ENVIRONMENT = (
    "cpu",
    "cores",
    "threads",
    "tvm",
    "python",
    "os",
    "simulated",
    "binding",
    "isolation",
    "cache",
    "noise_floor",
)
"""What of a record's environment leaves the service: names of hosts and devices do not."""


class Kind(str, enum.Enum):
    """What a row of the file is."""

    TARGET = "target"  # body: TVM's JSON of it
    WORKLOAD = "workload"  # body: name, family, args, flops, and TVM's JSON of its module
    SKETCH = "sketch"  # body: the trace skeleton with its knobs
    ENVIRONMENT = "environment"  # body: where and how records were measured
    RECORD = "record"


def canonical(value: Any) -> str:
    """JSON text with sorted keys and no blanks: equal values have equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def public(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment that may leave the service."""
    return {name: environment[name] for name in PUBLIC_ENVIRONMENT if name in environment}


@dataclass(frozen=True)
class Definition:
    """Something that records name by its hash.

    Attributes:
        hash: the hash by which records name it, which depends on the kind: TVM's structural hash of a workload.
        body: JSON.
    """

    kind: Kind
    hash: str
    body: Any

    @property
    def digest(self) -> str:
        """Hash of all that the row holds."""
        return digest([self.kind.value, self.hash, self.body])


@dataclass(frozen=True)
class RecordRow:
    """One measured candidate, complete but for what it names by hash.

    Attributes:
        sketch: None for the default schedule.
        decisions: one for each of the sketch's knobs.
        samples: seconds; empty after a failure.
        environment: hash of its public environment.
        measured_at: in UTC.
    """

    workload: str
    target: str
    sketch: str | None
    decisions: Sequence[Any]
    samples: Sequence[float]
    latency: float | None
    failure: str | None
    stopped: str | None
    duplicate: bool
    build_seconds: float
    run_seconds: float
    device_seconds: float
    precision: str
    environment: str
    measured_at: dt.datetime

    @property
    def content(self) -> str:
        """Hash of all that was measured: equal for the same record in any service and any file."""
        return digest(
            [
                self.workload,
                self.target,
                self.sketch,
                list(self.decisions),
                [float(value) for value in self.samples],
                None if self.latency is None else float(self.latency),
                self.failure,
                self.stopped,
                self.duplicate,
                float(self.build_seconds),
                float(self.run_seconds),
                float(self.device_seconds),
                self.precision,
                self.environment,
                self.measured_at.astimezone(dt.timezone.utc).isoformat(timespec="microseconds"),
            ]
        )


@dataclass(frozen=True)
class About:
    """What lists and counts say of a record besides its own columns: from what it names."""

    family: str
    processor: str
    build: str
    cache: str
    simulated: bool

    @classmethod
    def of(cls, family: str, environment: Mapping[str, Any]) -> About:
        """From the workload's family and the environment."""
        return cls(
            family,
            processor_of(environment),
            build_of(environment),
            cache_state(environment).value,
            bool(environment.get("simulated")),
        )
