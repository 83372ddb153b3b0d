"""What repeated measurements say of a single one: is the order kept, does the interval hold the next median?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.measure.recording import Repeat
from tunesmith.measuring.interval import median_interval


@dataclass(frozen=True)
class Verdict:
    """Counts over all ordered pairs of passes.

    Attributes:
        schedules: number of them.
        pairs: pairs of schedules of one operator whose medians differed, in one pass, by more than the noise floor.
        kept: those whose order was the same in another pass.
        intervals: intervals of one pass that were held against the median of another.
        covered: those that held it.
        observed_floor: share below which 95 % of the differences between two medians of one schedule stay.
        width: median half-width of the intervals, as a share of the latency.
    """

    schedules: int
    pairs: int
    kept: int
    intervals: int
    covered: int
    observed_floor: float
    width: float

    @property
    def order(self) -> float:
        """Share of the pairs that kept their order; not a number when none differed."""
        return self.kept / self.pairs if self.pairs else math.nan

    @property
    def coverage(self) -> float:
        """Share of the intervals that held the next median."""
        return self.covered / self.intervals if self.intervals else math.nan


def judge(repeats: Sequence[Repeat], noise_floor: float, confidence: float = 0.95) -> Verdict:
    """Hold every pass against every other one.

    Args:
        repeats: schedules with the same number of passes.
        noise_floor: share that the device claims for itself.
        confidence: of the intervals.
    """
    pairs = kept = covered = intervals = 0
    widths, apart = [], []
    for repeat in repeats:
        medians = repeat.medians
        apart += [abs(math.log(a / b)) for a, b in itertools.combinations(medians, 2)]
        for i, samples in enumerate(repeat.passes):
            low, high = median_interval(samples, noise_floor, confidence)
            widths.append((high - low) / 2 / medians[i])
            others = [median for j, median in enumerate(medians) if j != i]
            intervals += len(others)
            covered += sum(low <= median <= high for median in others)
    for one, other in itertools.combinations(repeats, 2):
        if one.operator == other.operator:
            differing, same = _order(one.medians, other.medians, noise_floor)
            pairs, kept = pairs + differing, kept + same
    observed = float(np.expm1(np.quantile(apart, 0.95))) if apart else math.nan
    width = float(np.median(widths)) if widths else math.nan
    return Verdict(len(repeats), pairs, kept, intervals, covered, observed, width)


def _order(one: Sequence[float], other: Sequence[float], floor: float) -> tuple[int, int]:
    """Of the ordered pairs of passes: those in the first of which the two differ, and those that agree on the order."""
    differing = same = 0
    for i, j in itertools.permutations(range(len(one)), 2):
        if max(one[i], other[i]) > (1 + floor) * min(one[i], other[i]):
            differing += 1
            same += (one[i] < other[i]) == (one[j] < other[j])
    return differing, same
