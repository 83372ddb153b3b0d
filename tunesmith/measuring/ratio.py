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
"""Share by which two builds of one program may differ, nineteen times of twenty: no sample shows what the addresses of
code and data do (Mytkowicz et al., Producing wrong data without doing anything obviously wrong, 2009)."""


WIDEST = 100.0
"""Half of an interval's width in the logarithm at most: its ends are numbers that JSON can hold."""


class Verdict(str, enum.Enum):
    """Of one program against another."""

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


def ratio(others: Sequence[float], ours: Sequence[float], confidence: float = CONFIDENCE) -> Ratio:
    """How many times as fast ``ours`` is as ``others``.

    The errors of both medians, and what two builds differ by anyway, are added in squares as shares of the ratio; the
    interval is symmetric in the logarithm. Both were timed in turn, so that a drift of the device is in both.

    Args:
        others, ours: positive seconds of single runs.

    Raises:
        ValueError: without samples of each.
    """
    if not others or not ours:
        raise ValueError("a ratio needs samples of both")
    value = statistics.median(others) / statistics.median(ours)
    builds = normal_quantile(confidence) / normal_quantile(0.95) * BUILDS
    half = min(WIDEST, math.hypot(_share(others, confidence), _share(ours, confidence), builds))
    return Ratio(value, value * math.exp(-half), value * math.exp(half))


def _share(samples: Sequence[float], confidence: float) -> float:
    """Half the width of the median's interval, as a share of it."""
    quantile = normal_quantile(confidence)
    if len(samples) == 1:
        return quantile * SINGLE_SPREAD
    return student_quantile(quantile, len(samples) - 1) * median_error(samples) / statistics.median(samples)
