"""What a plan may ask for. Each is carried out by compare-and-set, so doing it twice is harmless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

from tunesmith.states import JobState


@dataclass(frozen=True)
class MoveJob:
    """Move a job from ``old`` to ``new``."""

    job: str
    old: JobState
    new: JobState
    stop_reason: str | None = None
    problem: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class OpenRound:
    """Open a round of a task; ``reason`` is what the allocator said."""

    job: str
    task: int
    number: int
    size: int
    baseline: bool
    reason: Mapping[str, Any]


@dataclass(frozen=True)
class CancelRounds:
    """Cancel a job's open rounds; ``measuring`` tells whether those on a device are cancelled as well."""

    job: str
    measuring: bool


@dataclass(frozen=True)
class StartEvaluation:
    """Compile, check and time the job's model end to end."""

    job: str
    device_class: str


@dataclass(frozen=True)
class StartTraining:
    """Fit a new version of the job's cost model."""

    job: str


@dataclass(frozen=True)
class SetClock:
    """Stop or start the clock that a budget of seconds is held against."""

    job: str
    stopped: bool


@dataclass(frozen=True)
class CancelEvaluation:
    """Cancel a job's end-to-end check."""

    job: str


Action = Union[MoveJob, OpenRound, CancelRounds, StartEvaluation, StartTraining, SetClock, CancelEvaluation]
