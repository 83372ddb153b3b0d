"""Which of an ask's examined points become its batch: the best, those that the scores are unsure of, and unlike ones.

Draft, verify, measure (after Pruner, Qiao et al., ASPLOS 2025): a cheap surrogate ranks very many points, the best of
which get an exact score. This module picks the few that are measured. The less the scores can be trusted, the more of
them are picked for what they teach.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tunesmith.space.base import Floats, Ints

BETTER = 0.5
"""Part of the points, by their scores, among which those are that are picked for what they teach."""


@dataclass(frozen=True)
class Mix:
    """Shares of a batch.

    Attributes:
        uncertain: share of points with the largest deviation of their score, if scores cannot be trusted at all; less
            in proportion as they can.
        unlike: likewise, of points that are far from all others of the batch.
    """

    uncertain: float
    unlike: float

    def counts(self, n: int, trust: float) -> tuple[int, int]:
        """How many of ``n`` points are picked as uncertain and as unlike ones."""
        return round(self.uncertain * (1.0 - trust) * n), round(self.unlike * (1.0 - trust) * n)


Best = Callable[[Ints, int], Ints]
"""Positions of so many best ones of rows that are sorted best score first."""


def first(rows: Ints, n: int) -> Ints:
    """The plain case of ``Best``."""
    return np.arange(min(n, len(rows)), dtype=np.int64)


def select(rows: Ints, std: Floats, codes: Floats, n: int, mix: tuple[int, int], best: Best = first) -> Ints:
    """Up to ``n`` of some rows of a pool, the best ones before the others.

    Args:
        rows: to pick from, best score first: int64.
        std: deviation of every row's score, float64 [pool].
        codes: numbers of every row, float64 [pool, dims].
        mix: how many uncertain and how many unlike ones, see :meth:`Mix.counts`.
        best: says which are the best, where it is not the scores alone.
    """
    doubted, odd = mix
    taken = rows[best(rows, n - doubted - odd)]
    left = rows[~np.isin(rows, taken)]
    taken = np.concatenate([taken, left[uncertain(std[left], doubted)]])
    left = rows[~np.isin(rows, taken)]
    taken = np.concatenate([taken, left[unlike(codes[taken], codes[left], odd)]])
    left = rows[~np.isin(rows, taken)]
    return np.concatenate([taken, left[: n - len(taken)]])


def uncertain(std: Floats, n: int) -> Ints:
    """Positions of up to ``n`` points whose scores are least sure; of none where no deviation is known.

    Args:
        std: deviation of each point's score, the points sorted best score first: float64 [points].
    """
    better = np.arange(_better(len(std)))
    better = better[std[better] > 0]
    return better[np.argsort(-std[better], kind="stable")[:n]]


def unlike(taken: Floats, codes: Floats, n: int) -> Ints:
    """Positions of up to ``n`` points, each as far as possible from those that are taken before it.

    Args:
        taken: numbers of the batch's points so far, float64 [taken, dims].
        codes: codes of each point to pick from, best score first: float64 [points, dims]; columns count by their
            spread.
    """
    if n < 1 or not len(codes):
        return np.zeros(0, dtype=np.int64)
    spread = np.concatenate([taken, codes]).std(axis=0)
    scale = 1.0 / np.where(spread > 0, spread, 1.0)
    points = codes[: _better(len(codes))] * scale
    distance = np.full(len(points), np.inf)
    for row in taken * scale:
        distance = np.minimum(distance, ((points - row) ** 2).sum(axis=1))
    picked: list[int] = []
    while len(picked) < min(n, len(points)):
        picked.append(int(np.argmax(distance)))
        distance = np.minimum(distance, ((points - points[picked[-1]]) ** 2).sum(axis=1))
        distance[picked] = -np.inf
    return np.array(picked, dtype=np.int64)


def _better(points: int) -> int:
    return math.ceil(BETTER * points)
