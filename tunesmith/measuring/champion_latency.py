"""What a new champion's latency is said to be."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

LARGEST_DRIFT = 1.5
"""A device that runs this many times slower than at first is not measured with (``workers.measure.drift``). What looks
like more is a champion that was disturbed."""


def champion_latency(samples: Sequence[float], champion: Sequence[float], seconds: float | None) -> float:
    """Latency in seconds of a finalist that beat the champion: the median of its samples.

    Where that is no progress, because the device runs slower now than when that champion was confirmed, the drift is
    taken off: what the champion takes now over what it took then, ``LARGEST_DRIFT`` at most. So a latency is
    never far from what was measured, however many champions went before it; and the winner is at least as fast as the
    champion.

    Args:
        samples: the finalist's samples.
        champion: the champion's samples, taken in turn; empty without one.
        seconds: the champion's latency when it was confirmed; None when another one is champion now.
    """
    median = statistics.median(samples)
    if not champion or seconds is None or median < seconds:
        return median
    drift = max(1.0, statistics.median(champion) / seconds)
    return min(seconds, median / min(drift, LARGEST_DRIFT))
