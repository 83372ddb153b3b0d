"""How good a ranking is: scores (higher should mean faster) against measured latencies in seconds.

Definitions as in TenSet (Zheng et al., NeurIPS 2021, Datasets and Benchmarks) and TLP (Zhai et al., ASPLOS 2023). A
failed program has infinite latency. Everything is for the programs of one workload but :func:`evaluate` and
:func:`network_top_k_score`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from costmodels.base import Floats, Ints


def pairwise_accuracy(scores: Floats, latency: Floats, gap: float = 0.0) -> float:
    """Share of pairs that the scores put in the right order; equal scores count one half.

    Pairs of equal latency, or whose slower one is not more than ``gap`` (0.05: 5 %) slower, are left out. NaN when no
    pair is left.
    """
    order = np.argsort(latency, kind="stable")
    scores, latency = scores[order], latency[order]
    right = total = 0.0
    for i in np.flatnonzero(np.isfinite(latency)):  # row by row: all pairs at once would need gigabytes
        slower = latency > latency[i] * (1 + gap)
        right += float(((np.sign(scores[i] - scores[slower]) + 1) / 2).sum())
        total += int(slower.sum())
    return right / total if total else float("nan")


def top_k_score(scores: Floats, latency: Floats, k: int) -> float:
    """Best latency of all over the best among the ``k`` best-scored, 0..1. NaN when nothing is valid."""
    best = latency.min(initial=np.inf)
    if not np.isfinite(best):
        return float("nan")
    return float(best / latency[_top(scores, k)].min())


def peak_at_k(scores: Floats, latency: Floats, k: int) -> float:
    """Mean over 1..k of the best label (best latency over latency) found so far. NaN when nothing is valid."""
    best = latency.min(initial=np.inf)
    if not np.isfinite(best):
        return float("nan")
    return float(np.mean(np.maximum.accumulate(best / latency[_top(scores, k)])))


def recall_at_k(scores: Floats, latency: Floats, k: int) -> float:
    """Share of the ``k`` fastest valid programs that are among the ``k`` best-scored. NaN when nothing is valid."""
    valid = int(np.isfinite(latency).sum())
    if not valid:
        return float("nan")
    k = min(k, valid)
    return len(np.intersect1d(_top(scores, k), _top(-latency, k))) / k


def rank_correlation(scores: Floats, latency: Floats) -> float:
    """Spearman's, of scores and the valid programs' speeds; NaN for fewer than two, or where either is constant."""
    valid = np.isfinite(latency)
    a, b = _ranks(scores[valid]), _ranks(-latency[valid])
    if len(a) < 2 or not a.std() or not b.std():
        return float("nan")
    return float(np.mean((a - a.mean()) * (b - b.mean())) / (a.std() * b.std()))


def filled(scores: Floats) -> Floats:
    """Scores in which programs of which nothing is known are in the middle."""
    known = scores[~np.isnan(scores)]
    return np.where(np.isnan(scores), float(np.median(known)) if len(known) else 0.0, scores)


def _ranks(values: Floats) -> Floats:
    """Places in order; equal values share the mean of theirs."""
    distinct, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: Floats = (last - (count - 1) / 2)[place.reshape(-1)] if len(distinct) else np.zeros(0)
    return ranks


def network_top_k_score(tasks: Sequence[tuple[float, Floats, Floats]], k: int) -> float:
    """Over tasks of (weight, scores, latency): weighted sum of best latencies over that of the best among the top k.

    Tasks without a valid latency are left out; NaN when none is left.
    """
    known = [(w, s, lat) for w, s, lat in tasks if np.isfinite(lat).any()]
    if not known:
        return float("nan")
    best = sum(w * lat.min() for w, _, lat in known)
    return float(best / sum(w * lat[_top(s, k)].min() for w, s, lat in known))


def _top(scores: Floats, k: int) -> Ints:
    """The ``k`` highest, equal ones in their order."""
    return np.argsort(-scores, kind="stable")[:k]


@dataclass(frozen=True)
class Metrics:
    """Means over workloads, weighted by their number of programs; NaN where no workload has a value.

    Attributes:
        programs, workloads: how many were ranked.
        pairwise: :func:`pairwise_accuracy` without a gap; ``pairwise_gap``: with 5 %.
        top1, top5, top10: :func:`top_k_score`.
        peak1, peak5: :func:`peak_at_k`.
        recall10: :func:`recall_at_k`.
    """

    programs: int
    workloads: int
    pairwise: float
    pairwise_gap: float
    top1: float
    top5: float
    top10: float
    peak1: float
    peak5: float
    recall10: float

    def to_json(self) -> dict[str, float | int | None]:
        """By name; NaN as None, which JSON can say."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


def evaluate(scores: Floats, latency: Floats, group: Ints) -> Metrics:
    """All metrics of programs of several workloads, separated by ``group``."""
    parts = [np.flatnonzero(group == g) for g in np.unique(group)]

    def mean(metric: str, k: int | None = None) -> float:
        rows = [(len(p), _METRICS[metric](scores[p], latency[p], k or 0)) for p in parts]
        rows = [(n, value) for n, value in rows if value == value]
        return float(np.average([v for _, v in rows], weights=[n for n, _ in rows])) if rows else float("nan")

    return Metrics(
        programs=len(scores),
        workloads=len(parts),
        pairwise=mean("pairwise"),
        pairwise_gap=mean("pairwise_gap"),
        top1=mean("top", 1),
        top5=mean("top", 5),
        top10=mean("top", 10),
        peak1=mean("peak", 1),
        peak5=mean("peak", 5),
        recall10=mean("recall", 10),
    )


_METRICS = {
    "pairwise": lambda s, lat, _: pairwise_accuracy(s, lat),
    "pairwise_gap": lambda s, lat, _: pairwise_accuracy(s, lat, gap=0.05),
    "top": top_k_score,
    "peak": peak_at_k,
    "recall": recall_at_k,
}
