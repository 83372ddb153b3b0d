"""Whether one schedule is faster than another, or noise makes it look so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sample:
    """Samples of one latency, as logarithms.

    Attributes:
        mean: mean of the logarithms of seconds.
        variance: unbiased variance of the logarithms; 0 for one sample, where it says nothing.
        count: how many.
    """

    mean: float
    variance: float
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Sample:
        """Sample of one latency or more, each above 0."""
        logs = np.log(seconds)
        return cls(float(logs.mean()), float(logs.var(ddof=1)) if len(logs) > 1 else 0.0, len(logs))


def p_value(a: Sample, b: Sample, noise: float) -> float:
    """Odds that noise alone brings ``a`` as far below ``b``, or farther: the one-sided p-value of Welch's t-test.

    Welch, "The Generalization of 'Student's' Problem when Several Different Population Variances are Involved",
    Biometrika 1947; Student's distribution by the normal one of Wallace (Annals of Mathematical Statistics 1959), which
    at two degrees of freedom errs by a hundredth at most.

    Args:
        noise: relative deviation of a measurement that has one sample, which cannot tell its own.
    """
    errors = [(s.variance if s.count > 1 else noise**2) / s.count for s in (a, b)]
    error = sum(errors)
    if error == 0:
        return 0.0 if a.mean < b.mean else 1.0
    t = (b.mean - a.mean) / math.sqrt(error)
    loss = sum(e**2 / (s.count - 1) for e, s in zip(errors, (a, b), strict=True) if s.count > 1)
    if loss > 0:
        freedom = error**2 / loss
        normal = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(t**2 / freedom))
        t = math.copysign(normal, t)
    return 0.5 * math.erfc(t / math.sqrt(2))
