"""Bayesian optimisation with a portfolio of acquisition functions, after Kernel Tuner.

Willemsen, van Nieuwpoort and van Werkhoven, "Bayesian Optimization for auto-tuning GPU kernels" (PMBS 2021). A
Gaussian process on the knobs' numbers learns the logarithm of latency; expected improvement, probability of
improvement and the confidence bound take turns in choosing what to measure. How much they explore is not a constant:
it is the contextual variance, what is left of the first uncertainty over how much was gained since the first batch.

Other than there, candidates are a thousand random points and neighbours of the best ones instead of a whole space, a
batch is chosen at once, failures count as the slowest that ran, and length scale and noise are the likeliest of some.

A cost model's scores are measurements with a larger error: they are brought to the scale of latency by a line through
the points that have both, and the error is what the line leaves unexplained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.acquisition import ACQUISITIONS, Portfolio
from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.candidates import CandidateOptions, candidates, observed
from tunesmith.search.extras import extra
from tunesmith.search.learning import LearningOptions, ModelSearcher
from tunesmith.search.process import Process, likeliest
from tunesmith.space.base import Bools, Floats, Ints, PointBatch
from tunesmith.space.space import Space, concat
from tunesmith.types import Measurement

LINE = 8
"""Fewest points with a score and a latency that show how scores relate to latency."""
TYPICAL = 256
"""Random points whose spread is that of a space."""
OWNED = 512
"""Proposals whose acquisition function is remembered; the oldest are forgotten first."""


@dataclass(frozen=True)
class BayesianOptions(LearningOptions, CandidateOptions):
    """Settings of Bayesian optimisation.

    Attributes:
        lengths: length scales to choose from; two random points are about 1.4 apart.
        noises: variances of a measurement's error to choose from, as shares of that of what was measured.
        shortlist: candidates by each acquisition function of which it may choose.
        exploration: multiplies the contextual variance.
        discount: weight of an acquisition function's earlier results when there is a newer one.
        behind: how much worse than the others' its results may be, in logarithms of latency.
        patience: how often two functions may choose the same point, or one may be behind, before one is dropped.
        distrust: multiplies the error of scores, because the model knows the points that it is judged by.
        scored: scores that count as measurements at most, the newest.
    """

    measured: int = 32
    lengths: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    noises: tuple[float, ...] = (1e-3, 3e-2)
    shortlist: int = 128
    exploration: float = 1.0
    discount: float = 0.95
    behind: float = 0.1
    patience: float = 5.0
    distrust: float = 2.0
    scored: int = 128


class BayesianSearcher(ModelSearcher):
    """Measures where a Gaussian process expects most; needs scikit-learn (extra ``search``).

    Raises:
        MissingDependency: without scikit-learn.
    """

    def __init__(self, space: Space, seed: int = 0, options: BayesianOptions = BayesianOptions()) -> None:
        extra("sklearn.gaussian_process", "bayesian")
        super().__init__(space, seed, options)
        self.options = options
        self._portfolio = Portfolio(options.discount, options.behind, options.patience)
        self._owners: dict[str, str] = {}  # key in hexadecimal, because parsers round large numbers, to function
        spread = self._codes.of(space.sample(np.random.default_rng(0), TYPICAL)).std(axis=0)
        self._scale = np.where(spread > 0, 1.0 / np.maximum(spread, 1e-9), 0.0) / math.sqrt(max(1, (spread > 0).sum()))
        self._first: tuple[float, float] | None = None  # variance and mean logarithm of latency to begin with

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember what was measured, and whose choice it was."""
        super().tell(measurements)
        known = self.space.known([m.candidate for m in measurements])
        mine = [m for m, is_point in zip(measurements, known, strict=True) if is_point]
        keys = self.space.keys(self.space.batch([m.candidate for m in mine]))
        worst = -float(self._history.goodness.min()) if len(self._history) else 0.0
        results: dict[str, list[float]] = {}
        for key, m in zip(keys.tolist(), mine, strict=True):
            if (owner := self._owners.pop(f"{key:x}", None)) is not None:
                results.setdefault(owner, []).append(float(np.log(m.latency)) if m.ok else worst)
        self._portfolio.credit(results)

    def state(self) -> dict[str, Any]:
        """As every searcher's, and the portfolio."""
        return {
            **super().state(),
            "portfolio": self._portfolio.state(),
            "owners": dict(self._owners),
            "first": None if self._first is None else list(self._first),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space, version or searcher."""
        super().restore(state)
        self._portfolio.restore(state["portfolio"])
        self._owners = dict(state["owners"])
        self._first = None if state["first"] is None else (float(state["first"][0]), float(state["first"][1]))

    def _numbers(self, points: PointBatch) -> Floats:
        """Codes in which two random points are about the square root of two apart: float64 [n, dims]."""
        return self._codes.of(points) * self._scale

    def _study(self, pool: CandidatePool) -> bool:
        points, goodness = observed(self._history, pool, self.options)
        if len(points) < 2 or np.ptp(goodness) == 0:
            return False
        self._middle, self._deviation = float(goodness.mean()), float(goodness.std())
        self._points, self._values = points, (goodness - self._middle) / self._deviation
        self._length, self._noise = likeliest(
            self._numbers(points), self._values, self.options.lengths, self.options.noises
        )
        self._process = self._fitted(pool)
        self._xi = self._exploration(pool, goodness)
        return True

    def _revise(self, pool: CandidatePool) -> None:
        self._process = self._fitted(pool)

    def _fitted(self, pool: CandidatePool) -> Process:
        """The process of what was measured and of what has a score."""
        points, values, noise = self._points, self._values, np.full(len(self._points), self._noise)
        if pool.is_informative:
            scored, expected, error = self._scored(pool)
            points, values = concat([points, scored]), np.concatenate([values, expected])
            noise = np.concatenate([noise, np.full(len(scored), self._noise + self.options.distrust * error)])
        return Process(self._numbers(points), values, noise, self._length)

    def _scored(self, pool: CandidatePool) -> tuple[PointBatch, Floats, float]:
        """Points that have only a score, what it says of their values, and the variance of its error."""
        place = {key: i for i, key in enumerate(self.space.keys(self._points).tolist())}
        known: Bools = np.array([key in place for key in pool.keys.tolist()], dtype=np.bool_)
        finite = np.isfinite(pool.mean)
        both, only = np.flatnonzero(known & finite), np.flatnonzero(~known & finite)[-self.options.scored :]
        if not len(self._history.fastest(1)):  # the scores themselves are what is known
            return pool.points.take(only), (pool.mean[only] - self._middle) / self._deviation, 0.0
        scores = pool.mean[both]
        if len(both) < LINE or np.ptp(scores) == 0:
            return pool.points.take(slice(0, 0)), np.zeros(0), 0.0
        values = self._values[[place[key] for key in pool.keys[both].tolist()]]
        slope, shift = np.polyfit(scores, values, 1)
        if slope <= 0:
            return pool.points.take(slice(0, 0)), np.zeros(0), 0.0
        error = float(np.mean((slope * scores + shift - values) ** 2))
        return pool.points.take(only), slope * pool.mean[only] + shift, error

    def _exploration(self, pool: CandidatePool, goodness: Floats) -> float:
        """The contextual variance: the mean variance over the first one, over how much faster the best has become."""
        _, deviation = self._process.each(self._numbers(self.space.sample(self._rng, self.options.sampled)))
        variance = float(np.mean(deviation**2))
        if self._first is None:
            self._first = variance, float(goodness.mean())
        gained = float(np.exp(max(0.0, float(goodness.max()) - self._first[1])))
        return self.options.exploration * variance / max(self._first[0], 1e-12) / gained

    def _promising(self, pool: CandidatePool, n: int, done: float) -> PointBatch:
        points = candidates(self._history, pool, self._rng, self.options)
        if len(points) > n:
            points = points.take(self._shortlist(points, n))
            mean, covariance = self._process.joint(self._numbers(points))
            points = points.take(self._turns().choose(mean, covariance, self._best, self._xi, n)[0])
        return points

    def _chosen(self, pool: CandidatePool, rows: Ints, n: int) -> Ints:
        mean, covariance = self._process.joint(self._numbers(pool.points.take(rows)))
        picked, owners = self._portfolio.choose(mean, covariance, self._best, self._xi, n)
        for key, owner in zip(pool.keys[rows[picked]].tolist(), owners, strict=True):
            self._owners[f"{key:x}"] = owner
        self._owners = dict(list(self._owners.items())[-OWNED:])
        return rows[picked]

    def _shortlist(self, points: PointBatch, n: int) -> Ints:
        """Rows that some acquisition function ranks high by themselves."""
        mean, deviation = self._process.each(self._numbers(points))
        most = max(self.options.shortlist, n)
        best = [
            np.argsort(-ACQUISITIONS[name](mean, deviation, self._best, self._xi), kind="stable")[:most]
            for name in self._portfolio.active
        ]
        return np.unique(np.concatenate(best)).astype(np.int64)

    @property
    def _best(self) -> float:
        """The best measured value, standardised."""
        return float(self._values.max())

    def _turns(self) -> Portfolio:
        """A copy that looks ahead without counting."""
        copy = Portfolio(self.options.discount, self.options.behind, self.options.patience)
        copy.restore(self._portfolio.state())
        return copy
