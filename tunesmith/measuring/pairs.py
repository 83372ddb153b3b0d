"""Whether a finalist is faster than the champion that it was measured in turn with. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def faster(samples: Sequence[float], champion: Sequence[float]) -> float | None:
    """One-sided p-value of "not faster than the champion": Wilcoxon's signed-rank test (1945) of the pairs.

    It asks for no distribution, and a hiccup in one pair counts as one rank. None without a champion; with fewer than
    five pairs no difference is significant at 0.05.

    Raises:
        ValueError: there are not as many samples of the one as of the other.
    """
    if not champion:
        return None
    pairs = [theirs - ours for ours, theirs in zip(samples, champion, strict=True)]
    if not any(pairs):
        return 1.0
    from scipy.stats import wilcoxon  # half a second to load, and only winners need it

    return float(wilcoxon(pairs, alternative="greater").pvalue)
