"""How many times as fast one program is as another that was timed in turn with it, and how sure that is. Pure."""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tunesmith.measuring.interval import SINGLE_SPREAD, median_error, normal_quantile, student_quantile

CONFIDENCE = 0.95
BUILDS = 0.02
"""Share by which two builds of one program may differ, nineteen times of twenty. No sample shows what the addresses of
code and data do (Mytkowicz et al., Producing wrong data without doing anything obviously wrong, 2009)."""
PLACEMENTS = 5
"""Times that two quick models are set up to be compared. The spread between those shows what no sample of one does."""
WIDEST = 100.0
"""Half of an interval's width in the logarithm at most: its ends are numbers that JSON can hold."""


class Verdict(str, enum.Enum):
    """Verdict on one program compared with another."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no_difference"


@dataclass(frozen=True)
class Ratio:
    """How many times as fast: the estimate, and an interval that holds the truth nineteen times of twenty."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """No difference where the interval contains 1."""
        if self.low <= 1 <= self.high:
            return Verdict.NO_DIFFERENCE
        return Verdict.FASTER if self.low > 1 else Verdict.SLOWER


def ratio(others: Sequence[float], ours: Sequence[float], confidence: float = CONFIDENCE, placements: int = 1) -> Ratio:
    """How many times as fast ``ours`` is as ``others``.

    Both were timed in turn, so that a drift of the device is in both. The interval is symmetric in the logarithm. What
    two builds differ by anyway is added in squares to what the samples show: with several placements, the spread of
    their ratios (Student's distribution over batch means: Schmeiser, Batch size effects in the analysis of simulation
    output, 1982); else the errors of both medians as shares of the ratio.

    Args:
        others, ours: positive seconds of single runs, in the order in which they were made.
        placements: times that both were set up, for equal numbers of samples. 1 is meant where they are too few for it.

    Raises:
        ValueError: without samples of each.
    """
    if not others or not ours:
        raise ValueError("a ratio needs samples of both")
    value = statistics.median(others) / statistics.median(ours)
    builds = normal_quantile(confidence) / normal_quantile(0.95) * BUILDS
    apart = placements > 1 and all(len(s) % placements == 0 and len(s) >= 2 * placements for s in (others, ours))
    shown = (
        _between(others, ours, confidence, placements)
        if apart
        else math.hypot(_share(others, confidence), _share(ours, confidence))
    )
    half = min(WIDEST, math.hypot(shown, builds))
    return Ratio(value, value * math.exp(-half), value * math.exp(half))


def _between(others: Sequence[float], ours: Sequence[float], confidence: float, placements: int) -> float:
    """Half the width of the interval of the ratio's logarithm, of what it is in each placement."""
    logs = [
        math.log(statistics.median(a) / statistics.median(b))
        for a, b in zip(_parts(others, placements), _parts(ours, placements), strict=True)
    ]
    quantile = student_quantile(normal_quantile(confidence), placements - 1)
    return quantile * statistics.stdev(logs) / math.sqrt(placements)


def _parts(samples: Sequence[float], count: int) -> list[Sequence[float]]:
    size = len(samples) // count
    return [samples[at : at + size] for at in range(0, len(samples), size)]


def _share(samples: Sequence[float], confidence: float) -> float:
    """Half the width of the median's interval, as a share of it."""
    quantile = normal_quantile(confidence)
    if len(samples) == 1:
        return quantile * SINGLE_SPREAD
    return student_quantile(quantile, len(samples) - 1) * median_error(samples) / statistics.median(samples)
