"""What crosses between coordinator and workers: typed, frozen, versioned JSON.

The coordinator publishes everything but reports; workers publish reports, to the queue ``record`` only. Each
message names the row it is about and the attempt, so that a lost, late or doubled one is harmless. Tasks are
sent by name; a change of a message's meaning raises ``VERSION`` and a worker refuses what it does not know.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict

from tunesmith.types import FailureKind

VERSION: Final = 1
INLINE_LIMIT = 1_000_000
"""Bytes of encoded payload above which it travels as a blob."""

INGEST, SEARCH, TRAIN, RECORD = "ingest", "search", "train", "record"
CORE_QUEUES = (INGEST, SEARCH, TRAIN, RECORD)


def measure_queue(device_class: str) -> str:
    """The queue of a device class."""
    return f"measure.{device_class}"


class Message(BaseModel):
    """Base: the Celery task's name is ``task``; the only argument is ``model_dump(mode="json")``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    task: ClassVar[str]
    version: Literal[1] = VERSION


class Spec(BaseModel):
    """A tensor argument: ``tunesmith.types.TensorSpec`` on the wire."""

    model_config = ConfigDict(frozen=True)
    dtype: str
    shape: tuple[int, ...]
    name: str = ""


class Payload(BaseModel):
    """Bytes: inline (zlib, base64) up to ``INLINE_LIMIT``, else a blob behind a signed URL."""

    model_config = ConfigDict(frozen=True)
    inline: str | None = None
    sha256: str | None = None
    url: str | None = None
    size: int = 0

    @classmethod
    def pack(cls, data: bytes) -> Payload:
        """Inline ``data``. Check ``len(inline)`` against ``INLINE_LIMIT`` before sending."""
        return cls(inline=base64.b64encode(zlib.compress(data, 6)).decode(), size=len(data))

    def unpack(self) -> bytes:
        """The inlined bytes.

        Raises:
            ValueError: when the payload is a blob reference.
        """
        if self.inline is None:
            raise ValueError("the payload is a blob reference, fetch it by its URL")
        return zlib.decompress(base64.b64decode(self.inline))


class IngestModel(Message):
    """Import a model: queue ``ingest``."""

    task: ClassVar[str] = "tunesmith.ingest"
    model_id: str
    attempt: int


class PrepareJob(Message):
    """Generate the design spaces of a job's tasks for its target: queue ``ingest``."""

    task: ClassVar[str] = "tunesmith.prepare"
    job_id: str
    attempt: int


class ProposeRound(Message):
    """Propose a batch for a round: queue ``search``."""

    task: ClassVar[str] = "tunesmith.search"
    round_id: int
    attempt: int


class TrainCostModel(Message):
    """Fit a cost model: queue ``train``."""

    task: ClassVar[str] = "tunesmith.train"
    cost_model_id: str
    attempt: int


class MeasureLimits(BaseModel):
    """How long and how often a candidate may build and run (seconds, counts)."""

    model_config = ConfigDict(frozen=True)
    build_timeout: float = 10.0
    run_timeout: float = 10.0
    repeats: int = 10
    min_repeat_seconds: float = 0.01
    max_measure_seconds: float = 0.3
    cutoff: float = 3.0
    """A candidate whose first run is slower than ``cutoff`` times the incumbent keeps that one sample."""


class WireCandidate(BaseModel):
    """A candidate and its index in the batch; ``sketch`` is None for the default schedule."""

    model_config = ConfigDict(frozen=True)
    index: int
    sketch: str | None
    decisions: list[int | list[int]] = []


class MeasureBatch(Message):
    """Build and run candidates of one workload: queue ``measure.<device class>``."""

    task: ClassVar[str] = "tunesmith.measure"
    batch_id: int
    attempt: int
    job_id: str
    target: dict[str, Any]
    workload: str
    module: Payload
    sketches: dict[str, Payload]
    """Sketch hash to the sketch's JSON (trace skeleton, knobs, postprocessors)."""
    candidates: list[WireCandidate]
    incumbent_seconds: float | None = None
    limits: MeasureLimits = MeasureLimits()


class WireResult(BaseModel):
    """Outcome of one candidate. ``trace`` is the final trace's JSON when it beat the incumbent."""

    model_config = ConfigDict(frozen=True)
    index: int
    samples: list[float] = []
    failure: FailureKind | None = None
    message: str = ""
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    trace: str | None = None


class BatchReport(Message):
    """Some or all results of a batch; without results it is a sign of life. Queue ``record``."""

    task: ClassVar[str] = "tunesmith.record_batch"
    batch_id: int
    attempt: int
    worker: str
    environment: dict[str, Any] = {}
    results: list[WireResult] = []
    final: bool = False
    error: str = ""
    """Why the batch as a whole could not be measured; the batch is tried again."""


class TunedWorkload(BaseModel):
    """One line of a MetaSchedule database, for applying it to a model."""

    model_config = ConfigDict(frozen=True)
    workload: str
    workload_json: Payload
    """JSON of ``Workload.as_json()`` of MetaSchedule."""
    trace: Payload
    run_seconds: list[float]
    args: list[Spec]


class EvaluateModel(Message):
    """Compile a model untuned and tuned, compare outputs, time both interleaved. Queue ``measure.<device class>``."""

    task: ClassVar[str] = "tunesmith.evaluate"
    evaluation_id: int
    attempt: int
    job_id: str
    target: dict[str, Any]
    module: Payload
    params: Payload | None
    inputs: list[Spec]
    records: list[TunedWorkload]
    seed: int = 0
    timeout: float = 300.0


class EvaluationReport(Message):
    """Outcome of an evaluation, or a sign of life when ``final`` is False. Queue ``record``."""

    task: ClassVar[str] = "tunesmith.record_evaluation"
    evaluation_id: int
    attempt: int
    worker: str
    environment: dict[str, Any] = {}
    untuned_samples: list[float] = []
    tuned_samples: list[float] = []
    error: float | None = None
    """max|tuned - untuned| / max|untuned(x) - untuned(x')| over two random inputs."""
    applied: int = 0
    failure: FailureKind | None = None
    message: str = ""
    final: bool = False


class DeviceReport(Message):
    """A measure worker's sign of life, every few seconds. Queue ``record``."""

    task: ClassVar[str] = "tunesmith.record_device"
    worker: str
    """Unique per process life: host, pid and a random part."""
    name: str
    """Stable name of the device: host and key."""
    host: str
    device_classes: list[str]
    target: dict[str, Any]
    cores: int
    simulated: bool = False
    environment: dict[str, Any] = {}
    busy: bool = False
    stopping: bool = False
