"""What a draft of the scores learns from: exact scores of this ask, or earlier measurements."""

from __future__ import annotations

import numpy as np

from tunesmith.search.codes import Codes
from tunesmith.search.draft import Draft
from tunesmith.search.history import History
from tunesmith.search.hunt import Hunt
from tunesmith.space.space import concat

LEARNT = 256
"""Points that a draft learns from at most: its cost grows with their cube."""


def guess(codes: Codes, hunt: Hunt, history: History) -> Draft | None:
    """A cheap guess of scores, higher is better: from the exact scores of this ask where they tell points apart, else
    from what was measured; None where neither knows anything."""
    if hunt.opinion:
        return of_scores(codes, hunt)
    if len(history) > 1 and np.ptp(history.goodness) > 0:
        return of_history(codes, history)
    return None


def of_scores(codes: Codes, hunt: Hunt) -> Draft:
    """Learnt from what was examined last; what turned out invalid counts as the worst."""
    worst = hunt.mean[np.isfinite(hunt.mean)].min()
    refused = hunt.refused.take(slice(-LEARNT // 4, None))
    known = concat([hunt.pool.take(slice(-LEARNT, None)), refused])
    scores = np.concatenate([np.maximum(hunt.mean[-LEARNT:], worst), np.full(len(refused), worst)])
    return Draft(codes.of(known), scores)


def of_history(codes: Codes, history: History) -> Draft:
    """Learnt from measurements, two of them at least: the fastest half and the newest where there are many."""
    fast = history.fastest(LEARNT // 2)
    rest = np.setdiff1d(np.arange(len(history)), fast)[-(LEARNT - len(fast)):]
    rows = np.union1d(fast, rest)
    return Draft(codes.of(history.points.take(rows)), history.goodness[rows])
