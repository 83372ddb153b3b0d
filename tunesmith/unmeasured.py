"""Where a schedule comes from that was not searched for: what was measured before, the static model, or a relative."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from tunesmith.types import Candidate


class Source(str, enum.Enum):
    """Where a task's schedule comes from, the most trusted first."""

    MEASURED = "measured"  # the best schedule of this very workload on this target
    ESTIMATED = "estimated"  # what the static model of the CPU thinks fastest
    RESCALED = "rescaled"  # that of a relative: a workload of the same family, with its tiles fitted to these extents
    DEFAULT = "default"  # none: nothing to decide, or nothing known to decide by


CONFIDENCE = {Source.MEASURED: 1.0, Source.ESTIMATED: 0.7, Source.RESCALED: 0.3, Source.DEFAULT: 0.0}
"""Share of tasks for which a schedule of this source is within a tenth of what a search finds.

Counted on drawn operators (``bench answers``), which have odder extents than most models.
"""


@dataclass(frozen=True)
class Known:
    """The fastest schedule that anybody found of a workload.

    Attributes:
        trace: MetaSchedule's trace; None where nothing was faster than the default schedule.
        seconds: latency of this one, or of the default one; None where nobody says.
        program: the program that was tuned, as MetaSchedule's workloads hold it. A trace names that one's blocks, and
            programs with one hash may name theirs in other ways. None where nobody says.
    """

    trace: list[Any] | None
    seconds: float | None = None
    program: str | None = None


@dataclass(frozen=True)
class Answer:
    """A task's schedule without a measurement of it.

    Attributes:
        task: name of the task.
        workload: hash of its workload.
        source: where the schedule comes from.
        seconds: latency: measured, scaled from a relative's by its FLOPs, or estimated; None for the default schedule.
        relative: hash of the workload that a rescaled schedule was measured on.
        trace: MetaSchedule's trace; None for the default schedule.
        candidate: the schedule as a point of the task's design space; None where it is not known as one.
    """

    task: str
    workload: str
    source: Source
    seconds: float | None = None
    relative: str | None = None
    trace: list[Any] | None = None
    candidate: Candidate | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything but the names of task and workload."""
        return {
            "source": self.source.value,
            "seconds": self.seconds,
            "relative": self.relative,
            "confidence": self.confidence,
            "trace": self.trace,
            "candidate": None if self.candidate is None else self.candidate.to_json(),
        }

    @property
    def confidence(self) -> float:
        """How likely the schedule is within a tenth of what a search finds; see ``CONFIDENCE``."""
        return CONFIDENCE[self.source]
