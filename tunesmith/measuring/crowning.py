"""What a new champion's latency is said to be."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

LARGEST_DRIFT = 1.5
"""A device that runs this many times slower than at first is not measured with (``workers.measure.drift``); what looks
like more is a champion that was disturbed."""


def crowned(samples: Sequence[float], champion: Sequence[float], seconds: float | None) -> float:
    """Latency in seconds of a finalist that beat the champion: the median of its samples.

    Where that is no progress, because the device runs slower now than when that champion was crowned, the drift is
    taken off: what the champion takes now over what it was crowned with, ``LARGEST_DRIFT`` at most. So a latency is
    never far from what was measured, however many crowns went before it; and the winner is at least as fast as the
    champion.

    Args:
        samples: of the finalist.
        champion: of the champion, taken in turn; empty without one.
        seconds: the latency that the champion was crowned with; None when it is another one that reigns now.
    """
    median = statistics.median(samples)
    if not champion or seconds is None or median < seconds:
        return median
    drift = max(1.0, statistics.median(champion) / seconds)
    return min(seconds, median / min(drift, LARGEST_DRIFT))
