"""A cheap guess of scores from the space's own numbers, to decide which points deserve an exact look.

Kernel ridge regression (Gaussian process regression without its deviation; Rasmussen and Williams, "Gaussian
Processes for Machine Learning", 2006, chapters 2 and 5) on the knobs' numbers. The length scale and the ridge are those
with the smallest leave-one-out error, which has a closed form: (K + ridge)^-1 y divided by the inverse's diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tunesmith.space.base import Floats

LENGTHS = (0.5, 1.0, 2.0, 4.0)
"""Length scales to choose from, in root mean squared distances between the known points."""
RIDGES = (1e-3, 3e-2, 0.3)
"""Noise to choose from, as shares of the scores' variance."""


class KernelRidgeSurrogate:
    """Predicts scores of points near known ones.

    Args:
        codes: float64 [n, dims], the known points, at least two.
        scores: float64 [n], finite.
        lengths, ridges: to choose from.

    Attributes:
        deviation: standard deviation of the scores; 1 if all are equal.
        error: mean squared leave-one-out error as a share of the scores' variance.
    """

    def __init__(
        self, codes: Floats, scores: Floats, lengths: Sequence[float] = LENGTHS, ridges: Sequence[float] = RIDGES
    ) -> None:
        spread = codes.std(axis=0)
        self._scale = np.where(spread > 0, 1.0 / np.maximum(spread, 1e-9), 0.0)
        self._known = codes * self._scale
        self._middle, self.deviation = float(scores.mean()), float(scores.std()) or 1.0
        self._weights, self._reach, self.error = np.zeros(len(scores)), 1.0, np.inf
        self._fit((scores - self._middle) / self.deviation, lengths, ridges)
        self._weights *= self.deviation

    def _fit(self, wanted: Floats, lengths: Sequence[float], ridges: Sequence[float]) -> None:
        distances = _distances(self._known, self._known)
        typical = float(distances.mean()) or 1.0
        for reach in [typical * length**2 for length in lengths]:
            kernel = np.exp(-distances / reach)
            for ridge in ridges:
                inverse = np.linalg.inv(kernel + ridge * np.eye(len(wanted)))
                weights = inverse @ wanted
                error = float(np.mean((weights / np.diag(inverse)) ** 2))
                if error < self.error:
                    self._weights, self._reach, self.error = weights, reach, error

    def predict(self, codes: Floats) -> Floats:
        """Guessed scores, float64 [n]; far from every known point their mean."""
        near = np.exp(-_distances(codes * self._scale, self._known) / self._reach)
        guess: Floats = self._middle + near @ self._weights
        return guess


def _distances(a: Floats, b: Floats) -> Floats:
    """Squared distances, float64 [len(a), len(b)]."""
    square: Floats = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    return np.maximum(square, 0.0)
