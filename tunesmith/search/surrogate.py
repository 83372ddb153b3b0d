"""What a draft of the scores learns from: exact scores of this ask, or earlier measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.codes import Codes
from tunesmith.search.history import History
from tunesmith.search.kernel_ridge import KernelRidgeSurrogate
from tunesmith.space.base import Floats
from tunesmith.space.space import concat

LEARNT = 256
"""Points that a draft learns from at most: its cost grows with their cube."""


def from_history(codes: Codes, history: History) -> KernelRidgeSurrogate | None:
    """A guess of minus the logarithm of latency; None where no two measurements differ."""
    if len(history) > 1 and np.ptp(history.goodness) > 0:
        return of_history(codes, history)
    return None


@dataclass(frozen=True)
class Prediction:
    """A guess of scores, and next to it what the searcher measured itself.

    Attributes:
        main: guess of scores; of latencies where there are no scores.
        own: guess from the measurements; None where they are all that is known.
        weight: weight of ``own``, in scores per unit of its guess.
    """

    main: KernelRidgeSurrogate
    own: KernelRidgeSurrogate | None = None
    weight: float = 0.0

    def predict(self, codes: Floats) -> Floats:
        """Higher is better: float64 [n]."""
        return self.main.predict(codes) + self.beside(codes)

    def beside(self, codes: Floats) -> Floats:
        """What the measurements add to scores: float64 [n]."""
        return self.weight * self.own.predict(codes) if self.own else np.zeros(len(codes))


def predict(codes: Codes, pool: CandidatePool, own: KernelRidgeSurrogate | None, weight: float) -> Prediction | None:
    """A prediction from scores where they tell points apart, otherwise from ``own`` alone; None where neither does.

    Scores of a model that has seen little may know less than the measurements it learnt from: so these count as well,
    by how well they tell each other.

    Args:
        own: guess from the measurements.
        weight: weight of its deviations against those of the scores, if it predicted the order of the measurements
            exactly.
    """
    if not pool.is_informative:
        return Prediction(own) if own else None
    if own is None:
        return Prediction(of_scores(codes, pool))
    known = pool.mean[np.isfinite(pool.mean)]
    trust = weight * max(0.0, 1.0 - own.error)
    return Prediction(of_scores(codes, pool), own, trust * float(known.std()) / own.deviation)


def of_scores(codes: Codes, pool: CandidatePool) -> KernelRidgeSurrogate:
    """Learnt from what was examined last; what turned out invalid counts as the worst."""
    worst = pool.mean[np.isfinite(pool.mean)].min()
    refused = pool.refused.take(slice(-LEARNT // 4, None))
    known = concat([pool.points.take(slice(-LEARNT, None)), refused])
    scores = np.concatenate([np.maximum(pool.mean[-LEARNT:], worst), np.full(len(refused), worst)])
    return KernelRidgeSurrogate(codes.of(known), scores)


def of_history(codes: Codes, history: History) -> KernelRidgeSurrogate:
    """Learnt from measurements, two of them at least: the fastest half and the newest where there are many."""
    rows = history.telling(LEARNT)
    return KernelRidgeSurrogate(codes.of(history.points.take(rows)), history.goodness[rows])
