"""What passes between the measure worker, its builders and its runner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tunesmith.messages import MeasureLimits
from tunesmith.types import Decision, FailureKind, TensorSpec


@dataclass(frozen=True)
class BuildRequest:
    """One candidate to build.

    Attributes:
        workload: hash of the module, the key of what a builder keeps warm.
        module: the module's JSON.
        target: target JSON.
        body: JSON of the sketch; None for the default schedule.
        decisions: one per knob of the sketch.
        out: the library to write.
        timeout: seconds of building, waiting for the host lease not counted.
    """

    workload: str
    module: bytes
    target: Mapping[str, Any]
    body: bytes | None
    decisions: tuple[Decision, ...]
    out: Path
    timeout: float


@dataclass(frozen=True)
class Built:
    """Outcome of a build: a library, or a failure with a message.

    Attributes:
        function: name of the kernel in the library.
        args: its arguments, output last.
        flops: floating-point operations of one run.
        trace: the final trace's JSON; None for the default schedule.
        code_hash: SHA-256 of the object code: equal candidates have equal code.
        seconds: what the build took.
    """

    path: Path | None = None
    function: str = ""
    args: tuple[TensorSpec, ...] = ()
    flops: float = 0.0
    trace: str | None = None
    code_hash: str = ""
    seconds: float = 0.0
    failure: FailureKind | None = None
    message: str = ""


@dataclass(frozen=True)
class RunRequest:
    """A built candidate to time; ``incumbent`` is the best latency so far in seconds."""

    path: Path
    function: str
    args: tuple[TensorSpec, ...]
    limits: MeasureLimits
    incumbent: float | None
    flops: float = 0.0
    code_hash: str = ""


@dataclass(frozen=True)
class RunOutcome:
    """Samples in seconds, or a failure with a message; ``seconds`` is what the measurement took."""

    samples: tuple[float, ...] = ()
    failure: FailureKind | None = None
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class ModelRequest:
    """Two libraries of one model to compare on the device.

    Attributes:
        untuned, tuned: Relax VM libraries whose ``main`` takes ``inputs``, then the parameters.
        params: npz file of the parameters in order; None when there are none.
        seconds: about how long the timing may take.
        timeout: seconds after which a hanging model is killed.
    """

    untuned: Path
    tuned: Path
    params: Path | None
    inputs: tuple[TensorSpec, ...]
    seed: int
    seconds: float
    timeout: float


@dataclass(frozen=True)
class ModelOutcome:
    """Latencies of both in seconds, and the error of the outputs (``EvaluationReport.error``)."""

    untuned: tuple[float, ...] = ()
    tuned: tuple[float, ...] = ()
    error: float | None = None
    failure: FailureKind | None = None
    message: str = ""


class Runner(Protocol):
    """Runs libraries on one device. Used by one thread at a time."""

    def open(self, target: Mapping[str, Any]) -> None:
        """Take the device for a batch.

        Raises:
            DeviceLost: when no device answers.
        """

    def run(self, request: RunRequest) -> RunOutcome:
        """Time one candidate; a crash or a hang is an outcome. Raises ``DeviceLost`` when the device is gone."""

    def compare(self, request: ModelRequest) -> ModelOutcome:
        """Time two models interleaved and compare their outputs. Raises ``DeviceLost``."""

    def release(self) -> None:
        """Give the device back; harmless when it is not held."""

    def close(self) -> None:
        """End everything that the runner started."""
