"""What a draft of the scores learns from: exact scores of this ask, or earlier measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tunesmith.search.codes import Codes
from tunesmith.search.draft import Draft
from tunesmith.search.history import History
from tunesmith.search.hunt import Hunt
from tunesmith.space.base import Floats
from tunesmith.space.space import concat

LEARNT = 256
"""Points that a draft learns from at most: its cost grows with their cube."""


def from_history(codes: Codes, history: History) -> Draft | None:
    """A guess of minus the logarithm of latency; None where no two measurements differ."""
    if len(history) > 1 and np.ptp(history.goodness) > 0:
        return of_history(codes, history)
    return None


@dataclass(frozen=True)
class Belief:
    """A guess of scores, and beside it what the searcher measured itself.

    Attributes:
        main: guess of scores; of latencies where there are no scores.
        own: guess from the measurements; None where they are all that is known.
        weight: of ``own``, in scores per unit of its guess.
    """

    main: Draft
    own: Draft | None = None
    weight: float = 0.0

    def predict(self, codes: Floats) -> Floats:
        """Higher is better: float64 [n]."""
        return self.main.predict(codes) + self.beside(codes)

    def beside(self, codes: Floats) -> Floats:
        """What the measurements add to scores: float64 [n]."""
        return self.weight * self.own.predict(codes) if self.own else np.zeros(len(codes))


def believe(codes: Codes, hunt: Hunt, own: Draft | None, weight: float) -> Belief | None:
    """A belief from scores where they tell points apart, else from ``own`` alone; None where neither knows anything.

    Scores of a model that has seen little may know less than the measurements it learnt from: so these count as well,
    by how well they tell each other.

    Args:
        own: guess from the measurements.
        weight: of its deviations beside those of the scores, if it told the measurements from each other exactly.
    """
    if not hunt.opinion:
        return Belief(own) if own else None
    if own is None:
        return Belief(of_scores(codes, hunt))
    known = hunt.mean[np.isfinite(hunt.mean)]
    trust = weight * max(0.0, 1.0 - own.error)
    return Belief(of_scores(codes, hunt), own, trust * float(known.std()) / own.deviation)


def of_scores(codes: Codes, hunt: Hunt) -> Draft:
    """Learnt from what was examined last; what turned out invalid counts as the worst."""
    worst = hunt.mean[np.isfinite(hunt.mean)].min()
    refused = hunt.refused.take(slice(-LEARNT // 4, None))
    known = concat([hunt.pool.take(slice(-LEARNT, None)), refused])
    scores = np.concatenate([np.maximum(hunt.mean[-LEARNT:], worst), np.full(len(refused), worst)])
    return Draft(codes.of(known), scores)


def of_history(codes: Codes, history: History) -> Draft:
    """Learnt from measurements, two of them at least: the fastest half and the newest where there are many."""
    rows = history.telling(LEARNT)
    return Draft(codes.of(history.points.take(rows)), history.goodness[rows])
