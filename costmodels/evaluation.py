"""Contenders on the same rows and splits: how well each ranks programs that it did not learn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from costmodels.base import Features, Floats, TrainingSet
from costmodels.code_ranker import READ, CodeRankerModel, chosen_again
from costmodels.labelled import Labelled
from costmodels.metrics import filled, pairwise_accuracy, peak_at_k, rank_correlation, top_k_score
from costmodels.registry import make_cost_model
from costmodels.splits import Split
from tunesmith.analysis.rows import PLACE, STATIC
from tunesmith.names import CODE_RANKER, RANKER

Contender = Callable[[TrainingSet, Features, int], Floats]
"""Learns from programs and scores others: training set, rows and seed to float64 [n], NaN where it knows nothing."""

RANDOM, NOISE, STATIC_MODEL = "random ranks", "noise bound", "static model"
RANKER_AND_CODE = f"ranker, code of {READ}"
"""The ranker's choice, and the code ranker's among those that it likes best."""
RESAMPLES = 2000
METRICS: Mapping[str, Callable[[Floats, Floats], float]] = {
    "top-1": lambda scores, latency: top_k_score(scores, latency, 1),
    "top-5": lambda scores, latency: top_k_score(scores, latency, 5),
    "top-10": lambda scores, latency: top_k_score(scores, latency, 10),
    "peak-10": lambda scores, latency: peak_at_k(scores, latency, 10),
    "pairs": pairwise_accuracy,
    "rank correlation": rank_correlation,
}
"""Each of scores and latencies of the programs of one workload."""


@dataclass(frozen=True)
class Interval:
    """A mean over workloads, and the 95 % band of a bootstrap over them."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """A contender in a study.

    Attributes:
        workloads: how many judged it.
        figures: by the metric's name.
    """

    study: str
    contender: str
    workloads: int
    figures: Mapping[str, Interval]


def contenders() -> dict[str, Contender]:
    """Random ranks, the static model, the ranker, and the other cost models on the same rows; then with machine code.

    The last one knows nothing where that of no program was read.
    """
    return {
        RANDOM: lambda data, features, seed: np.random.default_rng(seed).random(len(features)),
        STATIC_MODEL: lambda data, features, seed: -features.rows[:, PLACE[STATIC]].astype(np.float64),
        **{name: _cost_model(name) for name in (RANKER, "xgboost", "lightgbm")},
        CODE_RANKER: _by_code,
    }


def _by_code(data: TrainingSet, features: Features, seed: int) -> Floats:
    model = CodeRankerModel(seed)
    try:
        model.fit(data)
    except ValueError:  # no machine code was read
        return np.full(len(features), np.nan)
    return model.predict(features)[0]


def _cost_model(name: str) -> Contender:
    def scores(data: TrainingSet, features: Features, seed: int) -> Floats:
        model = make_cost_model(name, seed)
        model.fit(data)
        return model.predict(features)[0]

    return scores


def evaluate_all(
    labelled: Labelled, splits: Sequence[Split], contenders: Mapping[str, Contender], seed: int = 0
) -> list[Row]:
    """A row for each study and contender, and one for the noise bound: what a second measurement would rank."""
    out = []
    for study in dict.fromkeys(split.study for split in splits):
        mine = [split for split in splits if split.study == study]
        mine = [split for split in mine if np.isfinite(labelled.data.latency[split.train]).any()]
        scores = {name: [_scores(labelled, split, each, seed) for split in mine] for name, each in contenders.items()}
        if RANKER in scores and CODE_RANKER in scores and labelled.data.features.code is not None:
            both = zip(mine, scores[RANKER], scores[CODE_RANKER], strict=True)
            scores[RANKER_AND_CODE] = [_chosen_again(labelled, *each) for each in both]
        for name, found in scores.items():
            judged = [_metrics(labelled, split, each) for split, each in zip(mine, found, strict=True)]
            out.append(_row(study, name, [values for each in judged for values in each], seed))
        noise = [values for split in mine for values in _noise(labelled, split, seed)]
        out.append(_row(study, NOISE, noise, seed))
    return out


def _scores(labelled: Labelled, split: Split, contender: Contender, seed: int) -> Floats:
    """What a contender that learned from one side says of the programs of the other."""
    return contender(labelled.data.take(split.train), labelled.data.features.take(split.test), seed)


def _chosen_again(labelled: Labelled, split: Split, first: Floats, second: Floats) -> Floats:
    """The best ones of each workload by the first, as the second ranks them."""
    group, out = labelled.data.group[split.test], np.empty(len(first))
    for number in np.unique(group):
        mine = group == number
        out[mine] = chosen_again(first[mine], second[mine])
    return out


def _noise(labelled: Labelled, split: Split, seed: int) -> list[dict[str, float]]:
    """The metrics of latencies as another measurement would find them."""
    rng = np.random.default_rng([seed, 7])
    spread = np.nan_to_num(labelled.spread[split.test])
    again = labelled.data.latency[split.test] * np.exp(spread * rng.normal(size=len(spread)))
    return _metrics(labelled, split, -again)


def _metrics(labelled: Labelled, split: Split, scores: Floats) -> list[dict[str, float]]:
    group, latency = labelled.data.group[split.test], labelled.data.latency[split.test]
    out = []
    for number in np.unique(group):
        mine = group == number
        if np.isfinite(latency[mine]).any():
            known = filled(scores[mine])
            out.append({name: metric(known, latency[mine]) for name, metric in METRICS.items()})
    return out


def _row(study: str, contender: str, found: Sequence[Mapping[str, float]], seed: int) -> Row:
    figures = {name: interval(np.array([each[name] for each in found]), seed) for name in METRICS}
    return Row(study, contender, len(found), figures)


def interval(values: Floats, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """Mean of the workloads' values and its 95 % band by resampling workloads; NaN of those that are not defined."""
    values = values[~np.isnan(values)]
    if not len(values):
        return Interval(float("nan"), float("nan"), float("nan"))
    drawn = values[np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))].mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Interval(float(values.mean()), float(low), float(high))
