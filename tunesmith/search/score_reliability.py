"""How far scores can be trusted: whether what they promised came true.

After AdaTune (Li et al., NeurIPS 2020), whose share of random proposals follows its model's uncertainty; here it is the
rank correlation (Spearman, 1904) of the scores of what was proposed with what was then measured of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tunesmith.search.packed import pack, pack_keys, unpack, unpack_keys
from tunesmith.space.base import Floats, Ints

WATCHED = 64
"""Latest measured proposals that count."""
WAITING = 256
"""Proposals whose measurements are waited for at most; the oldest are forgotten first."""
PAIR = 2
"""Measurements of one ask that can be put in an order."""


class ScoreReliability:
    """Scores of what was proposed, and what was measured then.

    Scores of two asks do not compare, because the model was fitted anew in between, so ranks are taken within each ask.

    Args:
        start: trust before anything is known.
        weight: measurements that ``start`` counts for.
    """

    def __init__(self, start: float, weight: float) -> None:
        self._start, self._weight = start, weight
        self._ask: Ints = np.zeros(0, dtype=np.int64)
        self._key: Ints = np.zeros(0, dtype=np.int64)
        self._score: Floats = np.zeros(0)
        self._seconds: Floats = np.zeros(0)

    def expect(self, keys: Ints, scores: Floats) -> None:
        """Remember what an ask proposes: a key and a score for each point, higher is better."""
        new = np.full(len(keys), self._ask.max(initial=-1) + 1, dtype=np.int64)
        self._ask, self._key = np.concatenate([self._ask, new]), np.concatenate([self._key, keys])
        self._score = np.concatenate([self._score, scores])
        self._seconds = np.concatenate([self._seconds, np.full(len(keys), np.nan)])
        self._forget()

    def take(self, keys: Ints, seconds: Sequence[float]) -> None:
        """Measurements of points: latency, infinity after a failure."""
        found = dict(zip(keys.tolist(), seconds, strict=True))
        for row in np.flatnonzero(np.isnan(self._seconds) & np.isin(self._key, keys)):
            self._seconds[row] = found[int(self._key[row])]
        self._forget()

    @property
    def value(self) -> float:
        """0: the scores tell nothing; 1: they put everything into the right order."""
        products = np.zeros(3)
        count = 0
        for ask in np.unique(self._ask):
            mine = (self._ask == ask) & ~np.isnan(self._seconds)
            if mine.sum() >= PAIR:
                count += int(mine.sum())
                a, b = _ranks(self._score[mine]), _ranks(-self._seconds[mine])
                products += a @ b, a @ a, b @ b
        agreed = products[0] / np.sqrt(products[1] * products[2]) if products[1] * products[2] > 0 else 0.0
        return float(np.clip((self._weight * self._start + count * agreed) / (self._weight + count), 0.0, 1.0))

    def state(self) -> dict[str, Any]:
        """Plain JSON, a few dozen bytes per proposal."""
        return {
            "ask": (self._ask - self._ask.min(initial=0)).tolist(),
            "key": pack_keys(self._key),
            "score": pack(self._score, "<f8"),
            "seconds": pack(self._seconds, "<f8"),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of :meth:`state`."""
        self._ask = np.array(state["ask"], dtype=np.int64)
        self._key = unpack_keys(state["key"])
        self._score, self._seconds = unpack(state["score"], "<f8"), unpack(state["seconds"], "<f8")

    def _forget(self) -> None:
        waits = np.isnan(self._seconds)
        kept = np.union1d(np.flatnonzero(~waits)[-WATCHED:], np.flatnonzero(waits)[-WAITING:])
        self._ask, self._key = self._ask[kept], self._key[kept]
        self._score, self._seconds = self._score[kept], self._seconds[kept]


def _ranks(values: Floats) -> Floats:
    """Ranks of values, equal ones sharing theirs, as shares of their number around 0."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count + 1) / 2)[place]
    return np.asarray((rank - rank.mean()) / len(values))
