"""How sure a latency is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

SINGLE_SPREAD = 0.17
"""Coefficient of variation assumed of a single short run, which shows none: what was seen on a quiet CPU."""
FLOOR_CONFIDENCE = 0.95
"""What a noise floor stands for: two medians differ by less than it nineteen times of twenty."""


def median_interval(samples: Sequence[float], noise_floor: float, confidence: float = 0.95) -> tuple[float, float]:
    """Where the median would lie if the same were measured again, in seconds.

    Two independent causes are added in squares: the spread within a measurement, which both of them have, and the
    device's own difference between measurements taken apart, its ``noise_floor``, which no number of samples shows.

    Args:
        samples: seconds of one measurement.
        noise_floor: share by which two medians of one kernel differ at most, nineteen times of twenty; 0: unknown.
        confidence: probability that the interval holds the next median.

    Raises:
        ValueError: without samples, or with a confidence that is no probability.
    """
    if not samples or not 0 < confidence < 1:
        raise ValueError("an interval needs samples and a confidence between 0 and 1")
    median = statistics.median(samples)
    quantile = normal_quantile(confidence)
    if len(samples) == 1:
        within = quantile * SINGLE_SPREAD * median
    else:
        within = student_quantile(quantile, len(samples) - 1) * median_error(samples)
    between = quantile / normal_quantile(FLOOR_CONFIDENCE) * noise_floor * median
    half = math.hypot(math.sqrt(2) * within, between)
    return max(0.0, median - half), median + half


def recorded_interval(samples: Sequence[float], environment: Mapping[str, Any]) -> tuple[float, float] | None:
    """``median_interval`` of a record; None when it has no samples.

    Args:
        environment: the record's, ``tunesmith.types.Environment`` as JSON; older ones lack the noise floor.
    """
    return median_interval(samples, float(environment.get("noise_floor") or 0.0)) if samples else None


def median_error(samples: Sequence[float]) -> float:
    """Standard error of the median, free of the samples' distribution: 0 for fewer than two.

    ``(x[n-c+1] - x[c]) / 2z`` with ``c = (n+1)/2 - sqrt(n)``, rounded, 1 at least, and ``z`` the normal quantile of
    the exact binomial probability that the median lies between those two (Price and Bonett, 2001).
    """
    count = len(samples)
    if count < 2:
        return 0.0
    ranked = sorted(samples)
    low = max(1, round((count + 1) / 2 - math.sqrt(count)))
    outside = 2 * sum(math.comb(count, i) for i in range(low)) / 2**count
    return (ranked[count - low] - ranked[low - 1]) / (2 * normal_quantile(1 - outside))


def normal_quantile(confidence: float) -> float:
    """Half-width, in standard deviations, of the normal distribution's central interval."""
    return statistics.NormalDist().inv_cdf(0.5 + confidence / 2)


def student_quantile(z: float, degrees: int) -> float:
    """The same of Student's distribution: Fisher and Cornish's series around the normal quantile ``z``."""
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3
