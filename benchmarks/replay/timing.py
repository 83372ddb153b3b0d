"""How a point of a recorded space is timed: limits of a race, and what a recording keeps of its outcome."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from tunesmith.messages import MeasureLimits
from workers.protocol import Built, RunOutcome

REPEATS = 7
LIMITS = MeasureLimits(
    run_timeout=5.0,
    min_repeats=REPEATS,
    repeats=REPEATS,
    variation=0.0,
    min_repeat_seconds=0.006,
    max_measure_seconds=5.0,
    cutoff=math.inf,
    margin=math.inf,
    abort=math.inf,
)
"""All samples of every candidate."""


@dataclass(frozen=True)
class Timing:
    """Median and relative standard deviation of the samples, or a failure; ``cost``: seconds of building and timing."""

    seconds: float = math.inf
    spread: float = 0.0
    failure: str = ""
    cost: float = 0.0

    @classmethod
    def of(cls, built: Built, outcome: RunOutcome) -> Timing:
        """What came of a candidate."""
        cost = built.seconds + outcome.seconds
        if outcome.failure is not None:
            return cls(failure=outcome.failure.value, cost=cost)
        median = statistics.median(outcome.samples)
        # The deviation of normal samples, without the say of a disturbed one among them.
        spread = 1.4826 * statistics.median(abs(sample - median) for sample in outcome.samples) / median
        return cls(median, spread, "", cost)
