"""Two priors that share a batch: one that is wrong about a space then spoils half of it and not all.

A prior that was learned is better in the mean, and far worse on some spaces; which ones is not known before something
is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tunesmith.search.base import Prior
from tunesmith.space.base import Floats, PointBatch


@dataclass(frozen=True)
class Turns:
    """A prior made of two: each has every other place of what is constructed from it.

    Attributes:
        first: finds the points, says what is hopeless, and has the first place.
        second: chooses among what the first found.
    """

    first: Prior
    second: Prior

    def __call__(self, batch: PointBatch) -> Floats:
        """Places of points among these, by the prior that has them further ahead; what the first one does not know or
        calls hopeless stays so."""
        first, second = self.first(batch), self.second(batch)
        known = np.isfinite(first)
        out: Floats = first.copy()
        out[known] = 1.0 + np.minimum(2 * _places(first[known]), 2 * _places(second[known]) + 1)
        return out


def _places(found: Floats) -> Floats:
    """The place of each among all, 0 the best; unknown ones last."""
    places = np.empty(len(found))
    places[np.argsort(found, kind="stable")] = np.arange(len(found))
    return places
