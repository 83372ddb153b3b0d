"""Random search: valid points, each equally likely within its sketch. The baseline of every comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tunesmith.search.hunt import Hunt
from tunesmith.search.points import PointSearcher
from tunesmith.space.base import Ints
from tunesmith.space.space import Space


@dataclass(frozen=True)
class RandomOptions:
    """Limits of random search: ``effort`` points per ask go through the score function at most."""

    effort: int = 1024


class RandomSearcher(PointSearcher):
    """Ignores the score's ranking; uses it to find out what is valid."""

    def __init__(self, space: Space, seed: int = 0, options: RandomOptions = RandomOptions()) -> None:
        super().__init__(space, seed, effort=options.effort, elites=0)

    def _pick(self, hunt: Hunt, n: int, informed: bool) -> Ints:
        hunt.fill(self._rng, n)
        return np.flatnonzero(hunt.fresh)[:n]
