"""What passes between the measure worker, its builders and its runner."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tunesmith.measuring.agreement import TOLERANCE
from tunesmith.messages import MeasureLimits, ModelWeights
from tunesmith.types import Decision, FailureKind, Isolation, StopReason, TensorSpec


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
        quicker: without a body, the plain program in an order that suits a CPU, see ``reference_schedule.quicker``.
    """

    workload: str
    module: bytes
    target: Mapping[str, Any]
    body: bytes | None
    decisions: tuple[Decision, ...]
    out: Path
    timeout: float
    quicker: bool = False


@dataclass(frozen=True)
class Built:
    """Outcome of a build: a library, or a failure with a message.

    Attributes:
        function: name of the kernel in the library.
        args: arguments of the kernel, output last.
        updated: numbers of those that it reads and then writes.
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
    updated: tuple[int, ...] = ()

    def to_run(
        self, limits: MeasureLimits, *, default: bool = False, weights: ModelWeights | None = None
    ) -> RunRequest:
        """What asks for its time; only for what was built."""
        assert self.path is not None, "what failed to build cannot run"
        return RunRequest(
            self.path,
            self.function,
            self.args,
            limits,
            self.flops,
            self.code_hash,
            default=default,
            weights=weights,
            updated=self.updated,
        )


@dataclass(frozen=True)
class RunRequest:
    """A built candidate to time.

    Attributes:
        default: it is the default schedule, which is measured in full however slow it is.
        champion: it is the one to beat, which is measured in full and first: its latency of now is what counts.
        weights: to be read from where the model has them; None: the run before left everything in the caches.
        updated: numbers of the arguments that it reads and then writes, restored before each run.
    """

    path: Path
    function: str
    args: tuple[TensorSpec, ...]
    limits: MeasureLimits
    flops: float = 0.0
    code_hash: str = ""
    default: bool = False
    champion: bool = False
    weights: ModelWeights | None = None
    updated: tuple[int, ...] = ()

    @property
    def is_reference(self) -> bool:
        """Others are compared with it: it does not race."""
        return self.default or self.champion


@dataclass(frozen=True)
class RunOutcome:
    """Samples, or a failure with a message; times in seconds.

    Attributes:
        seconds: what the measurement took.
        device_seconds: part of it in which the kernel itself ran, warm-up runs included.
        stopped: why no further sample was taken.
    """

    samples: tuple[float, ...] = ()
    failure: FailureKind | None = None
    message: str = ""
    seconds: float = 0.0
    device_seconds: float = 0.0
    stopped: StopReason | None = None


@dataclass(frozen=True)
class Begun:
    """A candidate that ran in a session which another one took with it, before it had all its samples.

    Attributes:
        first: seconds of its first run.
        seconds, device_seconds: as in ``RunOutcome``.
        samples: samples taken so far; the next session adds to them.
    """

    first: float
    seconds: float
    device_seconds: float
    samples: tuple[float, ...] = ()


@dataclass(frozen=True)
class ConfirmRequest:
    """Built finalists to measure again next to the champion, and to verify.

    Attributes:
        finalists: most promising first.
        champion: None while only the default schedule exists.
        reference: the default schedule, or one that rounds like it, whose outputs count as right; None: outputs are not
            compared.
        seed: seed of the random inputs.
        tolerance: beyond this error the default schedule is asked how steady its own outputs are.
        problem: why there is no reference although outputs are to be compared; empty where there is one, or none is
            wanted.
    """

    finalists: tuple[RunRequest, ...]
    champion: RunRequest | None
    reference: RunRequest | None
    limits: MeasureLimits
    seed: int = 0
    tolerance: float = math.inf
    problem: str = ""


@dataclass(frozen=True)
class Confirmed:
    """A finalist's samples with the champion's taken in turn, and ``max|a-b| / max|b|`` against the reference.

    Attributes:
        error: None when there is nothing to compare with; ``message`` then says why.
        seconds, device_seconds: as in ``RunOutcome``.
        unsteady: error of the reference itself when its inputs are off by the tolerance, as far as that excuses the
            ``error``; see ``references.excuse``.
    """

    samples: tuple[float, ...] = ()
    champion_samples: tuple[float, ...] = ()
    error: float | None = None
    failure: FailureKind | None = None
    message: str = ""
    seconds: float = 0.0
    device_seconds: float = 0.0
    unsteady: float = 0.0


@dataclass(frozen=True)
class ModelRequest:
    """Two libraries of one model to compare on the device.

    Attributes:
        untuned, tuned: Relax VM libraries whose ``main`` takes ``inputs``, then the parameters.
        params: npz file of the parameters in order; None when there are none.
        seconds: about how long the timing may take.
        timeout: seconds after which a hanging model is killed.
        outputs: ``.npz`` for the tuned model's outputs of the first inputs; None: they are not kept.
        rounds_otherwise: another algorithm than the untuned model's rounds other values to bfloat16, whose bits the
            parameters of uint16 are.
    """

    untuned: Path
    tuned: Path
    params: Path | None
    inputs: tuple[TensorSpec, ...]
    seed: int
    seconds: float
    timeout: float
    outputs: Path | None = None
    rounds_otherwise: bool = False


@dataclass(frozen=True)
class ModelOutcome:
    """Latencies of both in seconds, the error of the outputs, the largest right one and the outputs' signal
    (``EvaluationReport``)."""

    untuned: tuple[float, ...] = ()
    tuned: tuple[float, ...] = ()
    error: float | None = None
    tolerance: float = TOLERANCE
    signal: float | None = None
    failure: FailureKind | None = None
    message: str = ""


class Runner(Protocol):
    """Runs libraries on one device. Used by one thread at a time."""

    @property
    def threads(self) -> int:
        """Threads of the kernels, known once the device was opened; 0 before, or when it has none."""

    @property
    def isolation(self) -> Isolation:
        """What may run on the host meanwhile, known once the device was opened."""

    @property
    def binding(self) -> str:
        """Cores that the kernels' threads are bound to, e.g. ``2,3``; empty when that is not known."""

    @property
    def streams(self) -> bool:
        """Runs can read weights from where a model has them; known once the device was opened."""

    def open(self, target: Mapping[str, Any]) -> None:
        """Take the device for a batch.

        Raises:
            DeviceLost: when no device answers.
        """

    def race(self, requests: Sequence[RunRequest], incumbent: float | None) -> list[RunOutcome]:
        """Time candidates of one workload, in order; a crash or a hang is an outcome. Raises ``DeviceLost``.

        Args:
            incumbent: latency to beat in seconds; candidates that are clearly slower get one sample.
        """

    def confirm(self, request: ConfirmRequest) -> list[Confirmed]:
        """Measure finalists again in a fresh session, one outcome for each. Raises ``DeviceLost``."""

    def compare(self, request: ModelRequest) -> ModelOutcome:
        """Time two models interleaved and compare their outputs. Raises ``DeviceLost``."""

    def release(self) -> None:
        """Give the device back; harmless when it is not held."""

    def close(self) -> None:
        """End everything that the runner started."""
