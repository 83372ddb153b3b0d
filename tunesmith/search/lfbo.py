"""Likelihood-free Bayesian optimisation with a forest, as a pattern search, after Helion's tuner of kernels.

Song et al., "A General Recipe for Likelihood-free Bayesian Optimization" (ICML 2022): a classifier that tells the
fastest tenth of what was measured from the rest, each of them weighted by how much faster it is, ranks points as their
expected improvement does, and no latency has to be predicted. A random forest (Breiman 2001) is that classifier.

It ranks neighbours of the best measured points, some of which move the knobs that the trees ask about on the way to
those points' leaves. A batch is picked one by one: a point loses as much as it shares leaves with those picked before.
Where there are scores of a cost model, they count together with the forest's probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.candidates import CandidateOptions, around, candidates, incumbents, observed
from tunesmith.search.extras import extra
from tunesmith.search.learning import LearningOptions, ModelSearcher
from tunesmith.search.memory import ENUMERATE_LIMIT
from tunesmith.search.surrogate import of_scores
from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.space.space import Space, concat


@dataclass(frozen=True)
class LfboOptions(LearningOptions, CandidateOptions):
    """Settings of the pattern search.

    Attributes:
        trees: number of trees in the forest.
        leaf: fewest measurements in a leaf.
        good: share of the measurements that are good.
        floor: weight of a good one that is hardly better than the rest, where their mean weight is 1.
        guided: neighbours along knobs that the trees ask about.
        shortlist: share of the candidates, by their utility alone, from which a batch is picked.
        likeness: what a point loses that shares all its leaves with those picked before it.
        trust: weight of scores compared with the forest's probability, 0 to 1.
    """

    measured: int = 32
    looks: int = 1
    learnt: int = 1024
    trees: int = 64
    leaf: int = 1
    good: float = 0.1
    floor: float = 1e-5
    guided: int = 512
    shortlist: float = 0.1
    likeness: float = 1.0
    trust: float = 0.5
    shared: float = 0.25


class LfboSearcher(ModelSearcher):
    """Measures what a forest thinks is among the best; needs scikit-learn (extra ``search``).

    Raises:
        MissingDependency: without scikit-learn.
    """

    def __init__(self, space: Space, seed: int = 0, options: LfboOptions = LfboOptions()) -> None:
        self._ensemble: Any = extra("sklearn.ensemble", "lfbo")
        super().__init__(space, seed, options)
        self.options = options

    def _study(self, pool: CandidatePool) -> bool:
        points, goodness = observed(self._history, pool, self.options)
        if len(points) < 2 or np.ptp(goodness) == 0:
            return False
        order = np.sort(goodness)[::-1]
        most = max(1, math.ceil(self.options.good * len(order)))
        limit = float(order[order < order[most - 1]].max(initial=order[-1]))  # the best of the rest
        good = goodness > limit
        above = goodness[good] - limit
        weight = np.ones(len(goodness))
        weight[good] = np.maximum(self.options.floor, above / above.mean())
        self._forest = self._ensemble.RandomForestClassifier(
            self.options.trees,
            min_samples_leaf=self.options.leaf,
            n_jobs=1,
            random_state=int(self._rng.integers(2**31)),
        ).fit(self._codes.of(points), good, weight)
        return True

    def _promising(self, pool: CandidatePool, n: int, done: float) -> PointBatch:
        points = self._candidates(pool)
        if len(points) <= n:
            return points
        codes = self._codes.of(points)
        utility = self._utility(codes, of_scores(self._codes, pool).predict(codes) if pool.is_informative else None)
        return points.take(self._picked(points, codes, utility, n))

    def _chosen(self, pool: CandidatePool, rows: Ints, n: int) -> Ints:
        points = pool.points.take(rows)
        codes = self._codes.of(points)
        utility = self._utility(codes, pool.mean[rows] if pool.is_informative else None)
        return rows[self._picked(points, codes, utility, n)]

    def _utility(self, codes: Floats, scores: Floats | None) -> Floats:
        """How good points are, 0 to 1: the probability that they are among the fastest, and what scores say."""
        chance = np.asarray(self._forest.predict_proba(codes)[:, 1])
        if scores is None:
            return chance
        scores = np.nan_to_num(scores, neginf=float(scores[np.isfinite(scores)].min(initial=0.0)))
        said = np.exp((scores - scores.max()) / (float(scores.std()) or 1.0))
        return np.asarray((1.0 - self.options.trust) * chance + self.options.trust * said)

    def _picked(self, points: PointBatch, codes: Floats, utility: Floats, n: int) -> Ints:
        """Up to ``n`` rows of much utility, unlike each other by the forest's leaves."""
        order = np.argsort(-utility, kind="stable")
        most = max(2 * n, math.ceil(self.options.shortlist * len(order)))
        order = order[self._divide(points.sketch[order], most, self.options.shared)]
        leaves, left = self._forest.apply(codes[order]), utility[order].copy()
        likeness_sum, picked = np.zeros(len(order)), list[int]()
        while len(picked) < min(n, len(order)):
            row = int(np.argmax(left - self.options.likeness * likeness_sum / max(1, len(picked))))
            picked.append(row)
            left[row] = -np.inf
            likeness_sum += (leaves == leaves[row]).mean(axis=1)
        return order[np.array(picked, dtype=np.int64)]

    def _candidates(self, pool: CandidatePool) -> PointBatch:
        """With neighbours along the knobs that matter."""
        points = candidates(self._history, pool, self._rng, self.options)
        if self.space.size > ENUMERATE_LIMIT:
            best = incumbents(self._history, pool, self.options)
            points = concat(
                [points, around(best, self.options.guided, pool, self._rng, self.options.onward, self._asked(best))]
            )
        return points.take(pool.unknown(points))

    def _asked(self, points: PointBatch) -> Floats:
        """How often the trees ask about each knob on the way to each point's leaves: float64 [n, width]."""
        path, _ = self._forest.decision_path(self._codes.of(points))
        column = np.concatenate([tree.tree_.feature for tree in self._forest.estimators_])
        inner = column >= 0
        by_column = np.zeros((len(column), self._codes.dims))
        by_column[np.flatnonzero(inner), column[inner]] = 1.0
        asked = path @ by_column
        out = np.zeros((len(points), self.space.width))
        for s in np.unique(points.sketch):
            rows = points.sketch == s
            for j, (start, stop) in enumerate(self._codes.columns(s)):
                out[rows, j] = asked[rows, start:stop].sum(axis=1)
        return out
