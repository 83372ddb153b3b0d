"""Acquisition functions, and which of several to trust: the portfolio of Willemsen et al. (2021).

"Bayesian Optimization for auto-tuning GPU kernels", PMBS 2021. Functions take turns. Two that keep choosing the same
point cost twice for nothing, so the one with the worse results is dropped; and so is one whose results stay behind.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tunesmith.search.extras import extra
from tunesmith.space.base import Floats, Ints

Acquisition = Callable[[Floats, Floats, float, float], Floats]
"""Takes means, deviations, the best value known and the factor of exploration. The point with the highest value is
next."""

TINY = 1e-12
"""Weight of the distance in deviations, which ranks points whose improvement is too unlikely to be told from none."""


def improvement(mean: Floats, deviation: Floats, best: float, xi: float) -> Floats:
    """Expected improvement over the best by more than ``xi`` (Mockus 1978)."""
    above = probability(mean, deviation, best, xi)
    density = np.exp(-0.5 * above**2) / np.sqrt(2.0 * np.pi)
    below = extra("scipy.special", "bayesian").ndtr(above)
    return np.asarray(deviation * (above * below + density) + TINY * above)


def probability(mean: Floats, deviation: Floats, best: float, xi: float) -> Floats:
    """Ranks as the probability of improvement over the best by more than ``xi`` (Kushner 1964) does."""
    return np.asarray((mean - best - xi) / np.maximum(deviation, TINY))


def bound(mean: Floats, deviation: Floats, best: float, xi: float) -> Floats:
    """The confidence bound (Cox and John 1992): the mean and ``xi`` deviations."""
    return np.asarray(mean + xi * deviation)


ACQUISITIONS: Mapping[str, Acquisition] = {"ei": improvement, "poi": probability, "lcb": bound}


class Portfolio:
    """Acquisition functions that take turns, and how they fared.

    Args:
        discount: weight of a function's earlier results when there is a newer one.
        behind: how much worse than the others, in logarithms of latency, a function's results may be.
        patience: how often functions may choose the same point, or one may be behind, before one is dropped.

    Attributes:
        active: names of the functions that are left, one at least.
    """

    def __init__(self, discount: float, behind: float, patience: float) -> None:
        self._discount, self._behind, self._patience = discount, behind, patience
        self.active = list(ACQUISITIONS)
        self._results: dict[str, float] = {}
        self._strikes: dict[str, float] = {}

    def choose(self, mean: Floats, covariance: Floats, best: float, xi: float, n: int) -> tuple[Ints, list[str]]:
        """``n`` points in turns, and who chose each; a point counts as measured, at its mean, once it is chosen.

        This "kriging believer" (Ginsbourger et al. 2010) leaves the means as they are and takes the deviations down
        around a chosen point, so that a batch spreads.

        Args:
            mean, covariance: float64 [m] and [m, m].
        """
        variance = np.maximum(np.diag(covariance).copy(), 0.0)
        factor, chosen, owners = np.zeros((n, len(mean))), list[int](), list[str]()
        agreements = dict.fromkeys(itertools.combinations(self.active, 2), 0)
        for turn in range(min(n, len(mean))):
            tops = {name: self._top(name, mean, variance, best, xi, chosen) for name in self.active}
            for pair in agreements:
                agreements[pair] += tops[pair[0]] == tops[pair[1]]
            owners.append(self.active[turn % len(self.active)])
            row = tops[owners[-1]]
            column = covariance[row] - factor[:turn, row] @ factor[:turn]
            factor[turn] = column / np.sqrt(max(float(variance[row]), TINY))
            variance = np.maximum(variance - factor[turn] ** 2, 0.0)
            best = max(best, float(mean[row]))
            chosen.append(row)
        for pair, count in agreements.items():
            self._strike("+".join(pair), count / max(1, len(chosen)), pair)
        return np.array(chosen, dtype=np.int64), owners

    def _top(self, name: str, mean: Floats, variance: Floats, best: float, xi: float, taken: Sequence[int]) -> int:
        values = ACQUISITIONS[name](mean, np.sqrt(variance), best, xi)
        values[list(taken)] = -np.inf
        return int(np.argmax(values))

    def credit(self, results: Mapping[str, Sequence[float]]) -> None:
        """Take in the logarithms of the latencies of what each function chose."""
        for name, found in results.items():
            for value in found:
                self._results[name] = self._discount * self._results.get(name, value) + (1 - self._discount) * value
        known = [name for name in self.active if name in self._results]
        for name in known if len(known) > 1 else []:
            others = np.mean([self._results[other] for other in known if other != name])
            late = self._results[name] > others + self._behind
            self._strike(name, 1.0 if late else -np.inf, (name,))

    def _strike(self, what: str, by: float, names: Sequence[str]) -> None:
        """Count; at the limit the one of ``names`` with the worst results goes."""
        self._strikes[what] = max(0.0, self._strikes.get(what, 0.0) + by)
        left = [name for name in names if name in self.active]
        if self._strikes[what] < self._patience or len(left) < len(names) or len(self.active) == 1:
            return
        self.active.remove(max(left, key=lambda name: self._results.get(name, np.inf)))

    def state(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"active": list(self.active), "results": dict(self._results), "strikes": dict(self._strikes)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state`."""
        self.active = list(state["active"])
        self._results, self._strikes = dict(state["results"]), dict(state["strikes"])
