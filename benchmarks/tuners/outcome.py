"""What one tuner did with one operator, and the figures that follow from it. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

UNTUNED = "untuned"
"""The default schedule's name among the tuners'."""
TOLERANCE = 1e-3
"""Largest difference of outputs, relative to their largest value: rounding in another order, and no more."""


@dataclass(frozen=True)
class Trial:
    """One candidate.

    Attributes:
        at: seconds of tuning after which its result was known.
        latency: seconds as the tuner measured it; None when it failed.
        device: seconds in which its kernel ran.
        duplicate: the same program was measured before in this run.
    """

    at: float
    latency: float | None
    device: float = 0.0
    duplicate: bool = False

    @property
    def counts(self) -> bool:
        """True for a candidate that was built, run and recorded, and is none that was known already."""
        return self.latency is not None and not self.duplicate


@dataclass(frozen=True)
class TunerRun:
    """One run of one tuner.

    Attributes:
        operator, seed, tuner, target, budget: what was asked for; ``budget`` in seconds of tuning.
        startup: seconds from the start of the tuner's processes until it was ready to tune.
        elapsed: seconds of tuning that the trials took, see ``rate``.
        trials: every candidate, in order of time.
        parts: where the time went, in seconds of work; parts that overlap add up to more than ``elapsed``.
        workload: structural hash of the program that was tuned.
        trace: the best schedule as MetaSchedule's trace, JSON text; None when there is none.
        failure: why there is no outcome; empty when there is one.
    """

    operator: str
    seed: int
    tuner: str
    target: str
    budget: float
    startup: float = 0.0
    elapsed: float = 0.0
    trials: tuple[Trial, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    workload: str = ""
    trace: str | None = None
    failure: str = ""

    @property
    def key(self) -> tuple[str, int, str]:
        """Operator, seed and tuner."""
        return self.operator, self.seed, self.tuner

    @property
    def timely(self) -> tuple[Trial, ...]:
        """Trials of the time that the rate is taken over."""
        return tuple(trial for trial in self.trials if trial.at <= self.elapsed)

    @property
    def counted(self) -> int:
        """Candidates that count, see :attr:`Trial.counts`."""
        return sum(trial.counts for trial in self.timely)

    @property
    def failed(self) -> int:
        """Candidates that did not build or run."""
        return sum(trial.latency is None for trial in self.timely)

    @property
    def duplicates(self) -> int:
        """Candidates whose program was known already."""
        return sum(trial.duplicate for trial in self.timely)

    def rate(self, with_startup: bool = False) -> float | None:
        """Candidates that count per minute, over the time up to ``elapsed``; None without an outcome.

        ``elapsed`` is the budget, or less for a tuner that ended before; for one that measures round by round it is the
        end of its last complete round, so that a round that was cut off is not held against it.
        """
        seconds = self.elapsed + (self.startup if with_startup else 0.0)
        return 60.0 * self.counted / seconds if seconds > 0 else None

    @property
    def busy(self) -> float | None:
        """Share of the tuning time in which a candidate's kernel ran."""
        return sum(trial.device for trial in self.timely) / self.elapsed if self.elapsed > 0 else None

    @property
    def best(self) -> float | None:
        """The least latency that the tuner itself measured."""
        return min((trial.latency for trial in self.trials if trial.latency is not None), default=None)

    def steps(self) -> Iterator[tuple[float, float, int, float]]:
        """The best-so-far curve: seconds of tuning, device seconds, trials, latency; a point per improvement."""
        best, device = math.inf, 0.0
        for number, trial in enumerate(self.trials, start=1):
            device += trial.device
            if trial.latency is not None and trial.latency < best:
                best = trial.latency
                yield trial.at, device, number, best

    def to_json(self) -> dict[str, Any]:
        """Plain values; trials as lists."""
        body = asdict(self)
        body["trials"] = [[t.at, t.latency, t.device, t.duplicate] for t in self.trials]
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TunerRun:
        """Inverse of :meth:`to_json`."""
        return cls(**{**body, "trials": tuple(Trial(*values) for values in body["trials"])})


@dataclass(frozen=True)
class Final:
    """The best schedules of all tuners, measured again in turn in one process.

    Attributes:
        operator, seed: which.
        samples: seconds by tuner; ``untuned`` is the default schedule.
        errors: difference of the outputs from the default schedule's, relative to their largest value.
        flops, bytes: of one run.
    """

    operator: str
    seed: int
    samples: Mapping[str, list[float]]
    errors: Mapping[str, float]
    flops: float
    bytes: float

    @property
    def wrong(self) -> dict[str, float]:
        """Errors of the tuners whose best schedule computes something else."""
        return {name: error for name, error in self.errors.items() if not error <= TOLERANCE}

    @property
    def latencies(self) -> dict[str, float]:
        """Median seconds by tuner, and of the default schedule; wrong ones are left out."""
        return {name: statistics.median(s) for name, s in self.samples.items() if s and name not in self.wrong}

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)
