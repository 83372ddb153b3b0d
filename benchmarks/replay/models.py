"""Every registered cost model on recorded programs, from encoded decisions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.replay.ranking import decision_features
from benchmarks.replay.searchers import banded
from costmodels.base import Features, Floats, Ints, TrainingSet
from costmodels.metrics import Metrics, evaluate, network_top_k_score
from costmodels.registry import COST_MODELS, make_cost_model
from tunesmith.names import RANKER
from tunesmith.testing import score
from tunesmith.testing.replay import Recording

SIZES = (32, 128)
"""Programs to learn from."""
NOTHING = "none (random ranks)"


@dataclass(frozen=True)
class Trial:
    """A model on one space.

    Attributes:
        size: programs that it learned from, at most half of the space; all others were ranked.
        scores, latency: of those others, in order.
        seconds: what fitting took.
    """

    recording: Recording
    model: str
    size: int
    seed: int
    metrics: Metrics
    scores: Floats
    latency: Floats
    seconds: float


def names() -> list[str]:
    """Every registered model that takes any features, and none."""
    return [NOTHING, *(name for name in COST_MODELS if name != RANKER)]


def run(recording: Recording, model: str, size: int, seed: int, promise: Floats | None = None) -> Trial:
    """Learn from ``size`` random points (half of a small space), rank the others.

    Args:
        promise: of each point of the space by the static model; where given, it is a feature.
    """

    def features(numbers: Ints) -> Features:
        found = decision_features(recording, numbers)
        return found if promise is None else found.beside(promise[numbers])

    rng = np.random.default_rng([seed, size])
    order = rng.permutation(recording.points)
    known, rest = np.split(order, [min(size, len(order) // 2)])
    latency, seconds = recording.seconds[rest], 0.0
    if model == NOTHING:
        scores: Floats = rng.random(len(rest))
    else:
        fitted, started = make_cost_model(model, seed), time.perf_counter()
        fitted.fit(TrainingSet(features(known), recording.seconds[known], np.zeros(len(known), dtype=np.int64)))
        seconds = time.perf_counter() - started
        scores, _ = fitted.predict(features(rest))
    metrics = evaluate(scores, latency, np.zeros(len(rest), dtype=np.int64))
    name = model if promise is None else f"{model} + static model"
    return Trial(recording, name, size, seed, metrics, scores, latency, seconds)


def report(trials: Sequence[Trial], setup: dict[str, str]) -> Report:
    """One line per model and training size."""
    rows = [
        {"cost model": model, "learned from": size}
        | _figures([t for t in trials if (t.model, t.size) == (model, size)])
        for model in dict.fromkeys(t.model for t in trials)
        for size in sorted({t.size for t in trials if t.model == model})
    ]
    spaces, seeds = len({t.recording.name for t in trials}), len({t.seed for t in trials})
    summary = (
        f"A model learns from some random programs of a space and ranks the others ({spaces} spaces, {seeds} seeds), "
        "from encoded decisions. Definitions as in TenSet and TLP: pair accuracy, that of pairs more than 5 % apart, "
        "best of all over best among the k best ranked (top-k), share of the ten fastest among the ten best ranked "
        "(recall), and the top-5 score of a network that runs every space's program by its weight. The band is a 95 % "
        "bootstrap of the pair accuracy."
    )
    return Report.of("replay-models", "Cost models, replayed", summary, rows, setup)


def _figures(trials: Sequence[Trial]) -> dict[str, float]:
    seeds = sorted({t.seed for t in trials})
    by_space: dict[str, list[Trial]] = {}
    for trial in trials:
        by_space.setdefault(trial.recording.name, []).append(trial)
    pairs = score.bootstrap(np.array([[t.metrics.pairwise for t in mine] for mine in by_space.values()]))

    def mean(name: str) -> float:
        return round(float(np.nanmean([getattr(t.metrics, name) for t in trials])), 4)

    network = [
        network_top_k_score([(t.recording.weight, t.scores, t.latency) for t in trials if t.seed == seed], 5)
        for seed in seeds
    ]
    return {
        **banded("pair accuracy", pairs),
        "more than 5 % apart": mean("pairwise_gap"),
        **{f"top-{k}": mean(f"top{k}") for k in (1, 5, 10)},
        "recall-10": mean("recall10"),
        "network top-5": round(float(np.mean(network)), 4),
        "fit, ms": round(1000 * float(np.median([t.seconds for t in trials])), 1),
    }
