"""The vocabulary: frozen values that every layer shares. Seconds, bytes and FLOP throughout."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

Decision = Union[int, tuple[int, ...]]
"""One sampling decision: the factors of a perfect tile, a category's index, or a loop index."""


class FailureKind(str, enum.Enum):
    """Why a candidate has no latency."""

    INVALID = "invalid"  # the trace does not apply, or a postprocessor refuses it
    BUILD_ERROR = "build_error"
    BUILD_TIMEOUT = "build_timeout"
    RUN_ERROR = "run_error"
    RUN_TIMEOUT = "run_timeout"
    CRASH = "crash"  # the process that built or ran it died
    WRONG_RESULT = "wrong_result"
    IMPLAUSIBLE = "implausible"
    DEVICE_LOST = "device_lost"
    ABANDONED = "abandoned"  # never measured: its batch ran out of attempts


class StopReason(str, enum.Enum):
    """Why no further sample of a candidate was taken."""

    RACED = "raced"  # clearly slower than the incumbent: one sample
    STABLE = "stable"  # the samples agree within the bound
    CAPPED = "capped"  # as many samples as are allowed
    BUDGET = "budget"  # the time for one candidate was used up


class Isolation(str, enum.Enum):
    """What else may run on the host's cores while a kernel is timed there."""

    EXCLUSIVE = "exclusive"  # nothing: the kernel uses all of them
    PINNED = "pinned"  # everything, on the cores that the kernel does not use
    SHARED = "shared"  # everything: the kernel runs elsewhere (a GPU, another host)


class CacheState(str, enum.Enum):
    """Where timed runs find a kernel's arguments."""

    WARM = "warm"  # where the run before left them
    STREAMED = "streamed"  # the weights where the model has them, with all the others read in between; the rest warm


def cache_state(environment: Mapping[str, Any]) -> CacheState:
    """Cache state of a record, by its ``Environment`` as JSON. Older records were all measured warm."""
    return CacheState(environment.get("cache") or CacheState.WARM)


class Origin(str, enum.Enum):
    """Where a record comes from."""

    MEASURED = "measured"  # by a worker of this service
    IMPORTED = "imported"  # a claim: no champion before a measurement here confirms it


def processor_of(environment: Mapping[str, Any]) -> str:
    """The processor of a record, by its ``Environment`` as JSON; empty where it does not say."""
    return str(environment.get("cpu") or "")[:100]


def build_of(environment: Mapping[str, Any]) -> str:
    """The compiler of a record, which is TVM's version, by its ``Environment`` as JSON; empty where it does not say."""
    return str(environment.get("tvm") or "")[:60]


class DeviceHealth(str, enum.Enum):
    """Whether a device's numbers can be trusted now."""

    OK = "ok"
    DRIFTING = "drifting"  # the calibration kernel runs slower or faster than at first, by more than its noise
    QUARANTINED = "quarantined"  # so much that nothing is measured until it recovers
    RESTING = "resting"  # it failed again and again, and is left alone for a while
    INCOMPATIBLE = "incompatible"  # the worker cannot read what the coordinator writes


@dataclass(frozen=True)
class Values:
    """Values that an argument may have where its program is defined, both bounds included.

    Attributes:
        special: NaN and infinity have a defined effect, too.
        bits_of: type whose bits the whole numbers are, such as ``bfloat16``, or ``int8`` for weights of a product of
            bytes; empty where they are mere numbers.
    """

    low: float
    high: float
    special: bool = False
    bits_of: str = ""


@dataclass(frozen=True)
class TensorSpec:
    """Element type and static shape of one tensor argument.

    Attributes:
        values: that it may have, as far as they are known.
    """

    dtype: str
    shape: tuple[int, ...]
    name: str = ""
    values: Values | None = None

    @property
    def meaning(self) -> str:
        """Type of the values: that whose bits they are, or the element type."""
        return (self.values.bits_of if self.values is not None else "") or self.dtype


@dataclass(frozen=True)
class Workload:
    """One tensor program to tune, without a schedule.

    Attributes:
        hash: TVM's structural hash of the module, as a decimal string.
        name: the fused function's name, for people.
        args: arguments in order, output last.
        flops: floating-point operations of one run.
        family: the anchor operator's name, e.g. ``conv2d``.
        tunable: False when the design space has no decision to take.
    """

    hash: str
    name: str
    args: tuple[TensorSpec, ...]
    flops: float
    family: str
    tunable: bool = True


@dataclass(frozen=True)
class Candidate:
    """A point of a design space: a sketch and a decision for each of its knobs, in trace order.

    ``sketch`` is the hash of the trace skeleton; ``None`` stands for the default schedule
    (the untuned baseline), which has no decisions.
    """

    sketch: str | None
    decisions: tuple[Decision, ...] = ()

    @classmethod
    def from_json(cls, value: list[Any]) -> Candidate:
        """Inverse of :meth:`to_json`."""
        sketch, decisions = value
        return cls(sketch, tuple(tuple(d) if isinstance(d, list) else d for d in decisions))

    def to_json(self) -> list[Any]:
        """``[sketch, decisions]`` in plain JSON types."""
        return [self.sketch, [list(d) if isinstance(d, tuple) else d for d in self.decisions]]


@dataclass(frozen=True)
class Measurement:
    """What is known about one measured candidate.

    Either ``samples`` (seconds, one per repeat) is non-empty or ``failure`` is set.
    """

    candidate: Candidate
    samples: tuple[float, ...] = ()
    failure: FailureKind | None = None
    message: str = ""
    build_seconds: float = 0.0
    run_seconds: float = 0.0

    def __post_init__(self) -> None:
        if bool(self.samples) == (self.failure is not None):
            raise ValueError("a measurement has samples or a failure, and not both")

    @property
    def ok(self) -> bool:
        """True when the candidate ran."""
        return self.failure is None

    @property
    def latency(self) -> float:
        """Median of the samples in seconds; infinity after a failure."""
        return statistics.median(self.samples) if self.samples else float("inf")


@dataclass(frozen=True)
class Environment:
    """Fingerprint of where and how a measurement was taken.

    Attributes:
        threads: threads of the kernel.
        binding: cores that the kernel's threads are bound to, e.g. ``2,3``; empty where that is not known.
        isolation: an ``Isolation``.
        cache: a ``CacheState``.
        noise_floor: the device's, at its calibration (``messages.Calibration``); 0: never calibrated.
    """

    host: str = ""
    device: str = ""
    cpu: str = ""
    cores: int = 0
    threads: int = 0
    tvm: str = ""
    python: str = ""
    os: str = ""
    simulated: bool = False
    binding: str = ""
    isolation: str = ""
    cache: str = ""
    noise_floor: float = 0.0
    extra: tuple[tuple[str, str], ...] = field(default=())
