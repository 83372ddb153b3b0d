"""What crosses between coordinator and workers: typed, frozen, versioned JSON.

The coordinator publishes everything but reports; workers publish reports, to the queue ``record`` only. Each
message names the row it is about and the attempt, so that a lost, late or doubled one is harmless. Tasks are
sent by name; a change of a message's meaning raises ``VERSION`` and a worker refuses what it does not know.
"""

from __future__ import annotations

import base64
import zlib
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tunesmith.measure_limits import MeasureLimits as MeasureLimits
from tunesmith.names import FLOAT32
from tunesmith.types import DeviceHealth, FailureKind, StopReason
from tunesmith.worker_logs import LINES_AT_ONCE
from tunesmith.worker_logs import LogLine as LogLine

VERSION: Final = 9
"""Raise it with each change of a message; a test holds the schemas against the hash that it has for the version."""
INLINE_LIMIT = 1_000_000
"""Bytes of encoded payload above which it travels as a blob."""

INGEST, SEARCH, TRAIN, RECORD = "ingest", "search", "train", "record"
Name = Annotated[str, StringConstraints(max_length=200)]
Ticket = Annotated[str, StringConstraints(max_length=64)]
Samples = Annotated[list[float], Field(max_length=1000)]  # seconds, one per repeat
DeviceClass = Annotated[str, StringConstraints(min_length=1, max_length=100)]
CORE_QUEUES = (INGEST, SEARCH, TRAIN, RECORD)


def measure_queue(device_class: str) -> str:
    """The queue of a device class."""
    return f"measure.{device_class}"


class Message(BaseModel):
    """Base: the Celery task's name is ``task``; the only argument is ``model_dump(mode="json")``."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
    task: ClassVar[str]
    version: Literal[9] = VERSION


class Part(BaseModel):
    """Base of what messages consist of."""

    model_config = ConfigDict(frozen=True)


class Spec(Part):
    """A tensor argument: ``tunesmith.types.TensorSpec`` on the wire."""

    dtype: str
    shape: tuple[int, ...]
    name: str = ""


class Payload(Part):
    """Bytes: inline (zlib, base64) up to ``INLINE_LIMIT``, else a blob behind a signed URL."""

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


class ImportRecords(Message):
    """Import a file of records: queue ``ingest``."""

    task: ClassVar[str] = "tunesmith.import_records"
    import_id: str
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


class ListProgram(Message):
    """Write a trial's program as text: queue ``search``."""

    task: ClassVar[str] = "tunesmith.list_program"
    listing_id: int
    attempt: int


class JudgeProposals(Message):
    """Say which candidates of a set are valid and what is expected of them: queue ``search``."""

    task: ClassVar[str] = "tunesmith.judge_proposals"
    set_id: int
    attempt: int


class TrainCostModel(Message):
    """Fit a cost model: queue ``train``."""

    task: ClassVar[str] = "tunesmith.train"
    cost_model_id: str
    attempt: int


class WireCandidate(Part):
    """A candidate and its index in the batch; ``sketch`` is None for the default schedule."""

    index: int
    sketch: str | None
    decisions: list[int | list[int]] = []


class ModelWeights(Part):
    """Weights among a kernel's arguments: its model reads all of its others between two runs of the kernel."""

    arguments: tuple[int, ...]
    """Which of the kernel's arguments."""
    size: int
    """Bytes of all weights of the model."""


class DefaultSchedule(Part):
    """A task of which nothing is known yet, to be timed once with its default schedule."""

    workload: Name
    module: Payload


class DefaultLatency(Part):
    """What that gave: rough, from one short sample."""

    workload: Name
    seconds: float


class MeasureBatch(Message):
    """Build and run candidates of one workload: queue ``measure.<device class>``."""

    task: ClassVar[str] = "tunesmith.measure"
    batch_id: int
    attempt: int
    ticket: Ticket = ""
    """Goes back with each report: only who was handed this attempt knows it."""
    job_id: str
    target: dict[str, Any]
    workload: str
    module: Payload
    sketches: dict[str, Payload]
    """Sketch hash to the sketch's JSON (trace skeleton, knobs, postprocessors)."""
    candidates: list[WireCandidate]
    incumbent_seconds: float | None = None
    """Best latency of the task so far; what racing compares with."""
    champion: WireCandidate | None = None
    """The candidate that holds that latency, ``index`` -1; None: the default schedule, or nothing yet."""
    weights: ModelWeights | None = None
    """What timed runs do not find in the caches where the last run left it; None: they find everything there."""
    defaults: list[DefaultSchedule] = []
    """Tasks of the same model that are timed before the candidates, in this order, as far as time allows."""
    limits: MeasureLimits = MeasureLimits()


class Confirmation(Part):
    """A finalist, measured again in a fresh session in turn with the champion, and its outputs compared.

    ``samples`` and ``champion_samples`` (seconds) are pairs, taken one right after the other; without a champion they
    are the default schedule's, or, where that is far slower, there are none of the latter and no p-value. ``won``: not
    found wrong, and significantly faster.
    """

    samples: Samples
    champion_samples: Samples = []
    champion: WireCandidate | None = None
    """Whose samples were taken in turn with these; None: the default schedule, or nothing."""
    p_value: float | None = None
    """One-sided Wilcoxon signed-rank test of the pairs."""
    error: float | None = None
    """max|a-b| / max|b| over all arguments after a run on equal random inputs, b of the default schedule. None: not
    compared, because it was not asked for or the default schedule does not run."""
    tolerance: float | None = None
    won: bool = False


class WireResult(Part):
    """Outcome of one candidate. ``trace`` is the final trace's JSON of one that was confirmed and won."""

    index: int
    samples: Samples = []
    failure: FailureKind | None = None
    message: str = ""
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    device_seconds: float = 0.0
    """Seconds that the kernel itself ran, warm-up runs included."""
    stopped: StopReason | None = None
    duplicate: bool = False
    """True if another candidate has the same code: outcome and samples are that one's."""
    confirmation: Confirmation | None = None
    trace: str | None = None


class SignedReport(BaseModel):
    """What travels in the place of a report: its exact text with its worker's signature (``tunesmith.signing``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    worker: Annotated[str, StringConstraints(min_length=32, max_length=32, pattern="^[0-9a-f]+$")]
    """Id of the enrolled worker."""
    sequence: int = Field(ge=0, lt=1 << 62)
    """Grows with each report of a worker."""
    body: str
    """JSON of the report."""
    signature: Annotated[str, StringConstraints(max_length=100)]


class BatchReport(Message):
    """Some or all results of a batch; without results it is a heartbeat. Queue ``record``."""

    task: ClassVar[str] = "tunesmith.record_batch"
    batch_id: int
    attempt: int
    ticket: Ticket = ""
    worker: Name
    environment: dict[str, Any] = {}
    results: list[WireResult] = Field([], max_length=4096)
    defaults: list[DefaultLatency] = Field([], max_length=4096)
    final: bool = False
    error: str = ""
    """Why the batch as a whole could not be measured; the batch is tried again."""


class TunedWorkload(Part):
    """One line of a MetaSchedule database, for applying it to a model."""

    workload: str
    workload_json: Payload
    """JSON of ``Workload.as_json()`` of MetaSchedule."""
    trace: Payload
    run_seconds: list[float]
    args: list[Spec]


class ModelFile(Part):
    """The file that a model was imported from, for runtimes that read it themselves."""

    source: Literal["onnx", "pt2"]
    content: Payload


class EvaluateModel(Message):
    """Compile a model untuned and tuned, compare outputs, time both interleaved. Queue ``measure.<device class>``."""

    task: ClassVar[str] = "tunesmith.evaluate"
    evaluation_id: int
    attempt: int
    ticket: Ticket = ""
    """As in :class:`MeasureBatch`."""
    job_id: str
    target: dict[str, Any]
    module: Payload
    params: Payload | None
    inputs: list[Spec]
    records: list[TunedWorkload]
    file: ModelFile | None = None
    """What other runtimes are timed with, for a reference; None for an operator."""
    precision: Name = FLOAT32
    """The job's; outputs of a narrow one are compared with those of other runtimes."""
    seed: int = 0
    timeout: float = 300.0


class ReferenceTiming(Part):
    """The model on another runtime of the device's host, or why there are no samples."""

    runtime: Name
    version: Name = ""
    precision: Literal["model", "default"] = "model"
    """``default``: the runtime's default, where that may be less than the model's own."""
    samples: Samples = []
    failure: Annotated[str, StringConstraints(max_length=500)] = ""
    error: float | None = None
    """``max|tuned - its| / max|its|`` of a job in a narrow precision, at most ``checked.MOST_DISTANCE``; else None."""
    rms: float | None = None
    """The same in the root mean square."""


class EvaluationReport(Message):
    """Outcome of an evaluation, or a heartbeat when ``final`` is False. Queue ``record``."""

    task: ClassVar[str] = "tunesmith.record_evaluation"
    evaluation_id: int
    attempt: int
    ticket: Ticket = ""
    worker: Name
    environment: dict[str, Any] = {}
    untuned_samples: list[float] = Field([], max_length=100_000)
    tuned_samples: list[float] = Field([], max_length=100_000)
    error: float | None = None
    """max|tuned - untuned| / max|untuned(x) - untuned(x')| over two random inputs."""
    tolerance: float | None = None
    """Largest error that counts as right; None: ``agreement.TOLERANCE``."""
    signal: float | None = None
    """max|untuned(x) - untuned(x')| / max|untuned|, of the output that depends most on the inputs."""
    applied: int = 0
    references: Annotated[list[ReferenceTiming], Field(max_length=16)] = []
    """Fastest first; empty where none could be had: of operators, and on devices that are no CPU of the worker's."""
    failure: FailureKind | None = None
    message: str = ""
    final: bool = False


class Calibration(Part):
    """What a device's calibration found: how fast it can be, how noisy it is, and how it drifts."""

    peak_flops: float
    """FLOP/s of independent float32 multiply-adds on all of the target's cores."""
    narrow_flops: Annotated[dict[Name, float], Field(max_length=16)] = {}
    """The same of narrow types that the CPU has an instruction for, by precision, such as ``bf16``."""
    bandwidth: float
    """Bytes/s of reading a buffer that no cache holds."""
    noise_floor: float
    """Two medians of one kernel, measured apart, differ by less than this share nineteen times of twenty."""
    reference_seconds: float
    """The calibration kernel's latency when the device was first calibrated."""
    latest_seconds: float
    measured_at: str
    """ISO 8601, UTC: when ``latest_seconds`` was taken."""
    drift: float
    """``latest_seconds / reference_seconds``: 1 is none, 1.2 means that everything runs a fifth slower."""
    cache_sizes: Annotated[tuple[int, ...], Field(max_length=16)] = ()
    """Bytes of data cache that one core can use, level 1 first; empty where the system does not tell."""


class Unreadable(Part):
    """A message that a worker took off its queue and cannot read."""

    message: Name  # name of the message's task
    row: Name  # id of the row that it is about
    attempt: int
    speaks: int = VERSION  # the version of messages that the worker reads
    reason: Annotated[str, StringConstraints(max_length=500)]


class DeviceReport(Message):
    """A measure worker's heartbeat, every few seconds. Queue ``record``."""

    task: ClassVar[str] = "tunesmith.record_device"
    worker: Name  # unique per process life: host, pid and a random part
    name: Name  # stable name of the device: host and key
    host: Name
    device_classes: Annotated[list[DeviceClass], Field(max_length=1024)]
    target: dict[str, Any]
    cores: int = Field(ge=0, le=65536)
    simulated: bool = False
    environment: dict[str, Any] = {}
    health: DeviceHealth = DeviceHealth.OK
    reason: Annotated[str, StringConstraints(max_length=500)] = ""  # why the device is not healthy, for people
    unreadable: Unreadable | None = None
    """Said once: the work goes to another worker, and this one takes no more."""
    calibration: Calibration | None = None
    calibrated: str = Field("", max_length=100)
    """The device class that ``calibration`` is for: a device of many cores is one for each number of them."""
    busy: bool = False
    stopping: bool = False
    log: Annotated[list[LogLine], Field(max_length=LINES_AT_ONCE)] = []  # what the worker logged since the last one
