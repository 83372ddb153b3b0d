"""One ask of a searcher: points examined so far, and which of them may be proposed."""

from __future__ import annotations

import numpy as np

from tunesmith.search.base import Prior, Score
from tunesmith.search.construction import sift
from tunesmith.search.memory import ENUMERATE_LIMIT, Memory
from tunesmith.search.turns import Turns
from tunesmith.space.base import Bools, Floats, Ints, PointBatch, Scores
from tunesmith.space.space import concat, first_of_each

CHUNK = 16
"""Fewest points that a random draw examines at once."""

SIFTED = 16
"""Points drawn for each that is examined, where a prior tells which of them are good."""

STALLED = 16
"""Random draws in a row without a point that was not examined before, after which a space counts as exhausted."""


class CandidatePool:
    """Examines points through the score function and pools the valid ones.

    The pool holds canonical points, each once. ``fresh`` ones may be proposed; the others were measured, proposed
    or are pending, and only serve as parents. At most ``effort`` points go through the score function.

    Attributes:
        points: canonical valid points.
        keys, mean, std: key and predicted score of each point.
        blocked: keys that may not be proposed.
        fresh: whether it may be proposed.
        drawn: whether it came from a uniform draw.
        refused: points that turned out invalid.
        prior: estimates points before they are examined, see ``Prior``.
        share: share of each sketch that has points left. None: sketches are drawn from by their sizes alone.
    """

    def __init__(
        self,
        memory: Memory,
        blocked: Ints,
        score: Score | None,
        effort: int,
        prior: Prior | None = None,
        share: Floats | None = None,
    ) -> None:
        self.memory, self.space = memory, memory.space
        self.blocked, self._score, self.effort, self.prior = blocked, score, effort, prior
        self.share = share
        if share is not None and (left := memory.left(blocked)).any():
            self.share = share * left / (share @ left)
        self._examined: Ints = np.zeros(0, dtype=np.int64)
        self.points = self.refused = self.space.sample(np.random.default_rng(0), 0)
        self.keys: Ints = np.zeros(0, dtype=np.int64)
        self.mean: Floats = np.zeros(0)
        self.std: Floats = np.zeros(0)
        self.fresh: Bools = np.zeros(0, dtype=np.bool_)
        self.drawn: Bools = np.zeros(0, dtype=np.bool_)

    def examine(self, batch: PointBatch, *, parents: bool = False, drawn: bool = False) -> int:
        """Pool what is valid among the points not examined before; with ``parents`` blocked ones too.

        Returns:
            how many points had not been examined before.
        """
        rows = self.unknown(batch, parents=parents)
        if not parents:
            rows = rows[self._promising(batch.take(rows))]
        rows = rows[: self.effort]
        if len(rows):
            batch = batch.take(rows)
            keys = self.space.keys(batch)
            self.effort -= len(rows)
            self._examined = np.union1d(self._examined, keys)
            scores = self._scores(batch)
            self.refused = concat([self.refused, batch.take(~scores.valid)])
            self._admit(keys, scores, drawn)
        return len(rows)

    def unknown(self, batch: PointBatch, *, parents: bool = False) -> Ints:
        """Rows of ``batch`` that deserve a first look, each point once; with ``parents`` blocked ones too."""
        keys = self.space.keys(batch)
        new = first_of_each(keys) & ~np.isin(keys, self._examined) & ~np.isin(keys, self.memory.invalid)
        if not parents:
            new &= ~np.isin(keys, self.blocked)
        return np.flatnonzero(new)

    def draw(self, rng: np.random.Generator, n: int) -> PointBatch:
        """``n`` random points; where there is a prior, the best unknown ones of ``SIFTED`` times as many, sketch by
        sketch where there are shares."""
        if self.prior is None:
            return self.space.sample(rng, n, self.share)
        points = self.space.sample(rng, SIFTED * n, self.share)
        points, start = points.take(self.unknown(points)), 1.0 - rng.random(len(self.space.sketches))
        return sift(self.prior, points, n, self.share, start)

    def _promising(self, batch: PointBatch) -> Bools:
        """False for what the prior calls hopeless."""
        if self.prior is None or not len(batch):
            return np.ones(len(batch), dtype=np.bool_)
        prior = self.prior.first if isinstance(self.prior, Turns) else self.prior  # the second refuses nothing
        return ~np.isinf(prior(batch))

    def _scores(self, batch: PointBatch) -> Scores:
        if self._score is None:
            zero = np.zeros(len(batch))
            return Scores(batch, zero, zero, np.ones(len(batch), dtype=np.bool_))
        return self._score(batch)

    def _admit(self, raw: Ints, scores: Scores, drawn: bool) -> None:
        keys = self.space.keys(scores.batch)
        self.memory.mark_invalid(raw[~scores.valid | (keys != raw)])
        rows = np.flatnonzero(scores.valid & ~np.isin(keys, self.keys))
        rows = rows[first_of_each(keys[rows])]
        self.points = concat([self.points, scores.batch.take(rows)])
        self.keys = np.concatenate([self.keys, keys[rows]])
        self.mean = np.concatenate([self.mean, np.nan_to_num(scores.mean[rows], nan=-np.inf)])
        self.std = np.concatenate([self.std, np.nan_to_num(scores.std[rows])])
        self.fresh = np.concatenate([self.fresh, ~np.isin(keys[rows], self.blocked)])
        self.drawn = np.concatenate([self.drawn, np.full(len(rows), drawn)])

    def fill(self, rng: np.random.Generator, n: int) -> None:
        """Examine random points until ``n`` fresh ones are pooled, the effort is spent or nothing new is left."""
        if self.space.size <= ENUMERATE_LIMIT:
            order = self._listed(rng)
            left = order[~np.isin(order, np.concatenate([self._examined, self.blocked, self.memory.invalid]))]
            while len(left) and self.effort and self.count < n:
                step = max(n - self.count, CHUNK)
                self.examine(self.space.at(left[:step]), drawn=True)
                left = left[step:]
            return
        stalled = 0
        while self.count < n and self.effort and stalled < STALLED:
            found = self.examine(self.draw(rng, max(n - self.count, CHUNK)), drawn=True)
            stalled = 0 if found else stalled + 1

    def _listed(self, rng: np.random.Generator) -> Ints:
        """Numbers of all points of a small space in random order, points of sketches with large shares sooner.

        Drawn without replacement by weight (Efraimidis and Spirakis, 2006).
        """
        order = rng.permutation(self.space.size).astype(np.int64)
        if self.share is None:
            return order
        share = np.maximum(self.share[self.space.at(order).sketch], np.finfo(np.float64).tiny)
        return order[np.argsort(np.log(rng.exponential(size=len(order))) - np.log(share), kind="stable")]

    @property
    def count(self) -> int:
        """Fresh points in the pool."""
        return int(self.fresh.sum())

    @property
    def is_informative(self) -> bool:
        """True when the scores tell points apart."""
        return len(self.mean) > 1 and bool((self.mean != self.mean[0]).any())

    def ranked(self) -> Ints:
        """Rows of the pool, best score first; equal scores in the order of examination."""
        return np.argsort(-self.mean, kind="stable")
