"""Which candidates are not worth a second run."""

from __future__ import annotations

from collections.abc import Sequence


def clearly_slower(first: float, incumbent: float | None, cutoff: float) -> bool:
    """True when a first run is so slow that the candidate cannot be the new best.

    A first run errs by a sixth or more, but to one side: cold caches and interruptions only make it slower. So
    ``cutoff`` is a wide factor; most of a round's device time goes to candidates that are slower than any such factor.

    Args:
        first: seconds of the first run; not a number says nothing, infinity is slower than all.
        incumbent: latency to beat in seconds; None or nonsense (zero, less): there is nothing to compare with.
        cutoff: the factor, 1 or more.
    """
    return incumbent is not None and incumbent > 0 and first > cutoff * incumbent


def dominated(samples: Sequence[float], incumbent: float | None, margin: float) -> bool:
    """True when even the fastest sample of a contender is slower than ``margin`` times the incumbent.

    It will not be the new best, and its latency is known well enough to learn from.

    Args:
        samples: seconds, each over many runs.
        incumbent: as above.
        margin: the factor, 1 or more.
    """
    return bool(samples) and clearly_slower(min(samples), incumbent, margin)
