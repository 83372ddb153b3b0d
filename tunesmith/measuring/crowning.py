"""What a new champion's latency is said to be."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def crowned(samples: Sequence[float], champion: Sequence[float], seconds: float | None) -> float:
    """Latency in seconds of a finalist that beat the champion: the median of its samples.

    Where the device runs slower now than when that champion was crowned, the ratio of the two counts: the champion's
    latency times the quotient of the medians. On a device that drifts, the median alone would make no progress of a
    crown that was won.

    Args:
        samples: of the finalist.
        champion: of the champion, taken in turn; empty without one.
        seconds: the latency that the champion was crowned with; None when it is another one that reigns now.
    """
    median = statistics.median(samples)
    if not champion or seconds is None:
        return median
    return min(median, seconds * median / statistics.median(champion))
