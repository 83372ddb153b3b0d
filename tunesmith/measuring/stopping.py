"""When the samples of a contender suffice."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from tunesmith.types import StopReason

TRIMMED_FROM = 5
"""From this many samples on, the largest and the smallest do not count in full: one hiccup must not keep sampling."""


def stop(samples: Sequence[float], *, min_repeats: int, repeats: int, variation: float) -> StopReason | None:
    """Why sampling ends here, or None: go on.

    The bound is on the relative error of the mean, as in AdaTune (Li et al., NeurIPS 2020), rather than on the spread,
    which does not shrink as samples are added.

    Args:
        samples: seconds, in the order taken.
        min_repeats: fewer samples never suffice; neither does one, which has no spread.
        repeats: more samples are never taken.
        variation: ``relative_error`` that is small enough.
    """
    if len(samples) >= max(2, min_repeats) and relative_error(samples) <= variation:
        return StopReason.STABLE
    return StopReason.CAPPED if len(samples) >= repeats else None


def relative_error(samples: Sequence[float]) -> float:
    """Standard error of the samples' mean over that mean; infinity when it says nothing.

    From ``TRIMMED_FROM`` samples on it is the trimmed mean's, one sample trimmed at each end:
    ``s_w / ((1 - 2/n) sqrt(n))`` with the winsorised deviation ``s_w`` (Tukey and McLaughlin, 1963).
    """
    count = len(samples)
    if count < 2 or not all(math.isfinite(sample) and sample > 0 for sample in samples):
        return math.inf
    if count < TRIMMED_FROM:
        return statistics.stdev(samples) / math.sqrt(count) / statistics.fmean(samples)
    kept = sorted(samples)[1:-1]
    spread = statistics.stdev([kept[0], *kept, kept[-1]])
    return spread / ((1 - 2 / count) * math.sqrt(count)) / statistics.fmean(kept)
