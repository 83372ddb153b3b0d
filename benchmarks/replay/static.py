"""The static model against recorded spaces: does it rank what was measured, without having seen any of it?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from benchmarks.harness.operators import load
from benchmarks.harness.report import Report
from benchmarks.replay import models
from tunesmith.analysis.prior import StaticPrior
from tunesmith.errors import InvalidInput
from tunesmith.names import DEFAULT_COST_MODEL
from tunesmith.search.base import Prior
from tunesmith.search.construction import construct, ranks
from tunesmith.space.base import Floats
from tunesmith.targets import Target
from tunesmith.testing.replay import Recording
from workers.tvm_backend.design_space.rules.machine import cpu_model_of
from workers.tvm_backend.design_space.space import TraceSpace
from workers.tvm_backend.design_space.unmeasured import CONSTRUCTED, DRAWN

FIRST_POINTS = 10
"""Measurements after which the construction is judged."""
CLOSE_RATIO = 1.1
SEEDS = 5
SIZES = (16, 32, 64, 128)
"""Programs that cost models learn from."""


@dataclass(frozen=True)
class Judged:
    """The static model on one space.

    Attributes:
        known: share of the points that it has an estimate of.
        refused: share of the points that it calls hopeless.
        correlation: Spearman's, of estimates and latencies over the points with both.
        one: latency of the point that it thinks fastest over the optimum, geometric mean over seeds.
        first: best of the first points of a construction over the optimum, mean over seeds.
        chance: the same of as many random points, as expected.
        promise: of each point of the space, see :meth:`StaticPrior.promise`.
    """

    recording: Recording
    known: float
    refused: float
    correlation: float
    one: float
    first: float
    chance: float
    promise: Floats


def opened(recording: Recording) -> tuple[StaticPrior, str] | None:
    """The static model of a recorded space, and the workload's family; None when the recorded sketches are not those
    that this version makes."""
    target = Target(json.loads(str(recording.facts["target"])))
    operator = load(recording.name, target)
    if not {sketch.hash for sketch in recording.space.sketches} <= operator.bodies.keys():
        return None
    traces = TraceSpace(operator.task.module, target, list(operator.bodies.values()))
    return StaticPrior(recording.space, traces.nests, cpu_model_of(target)), operator.task.workload.family


def judge(recording: Recording) -> Judged | None:
    """Estimate every point; None as for :func:`opened`."""
    found = opened(recording)
    if found is None:
        return None
    prior, _ = found
    points = recording.points
    guess, seconds = prior(recording.space.at(points)), recording.seconds[points]
    both = np.isfinite(guess) & np.isfinite(seconds)
    return Judged(
        recording,
        float((~np.isnan(guess)).mean()),
        float(np.isinf(guess).mean()),
        spearman(guess[both], seconds[both]),
        _one(recording, prior),
        _first(recording, prior),
        _chance(seconds) / recording.optimum,
        prior.promise(recording.space.at(np.arange(recording.space.size))),
    )


def learned(judged: Sequence[Judged], sizes: Sequence[int] = SIZES, seeds: int = SEEDS) -> list[models.Trial]:
    """The default cost model on each space, with the static model's promise among the features and without.

    Args:
        sizes: programs that it learns from.
        seeds: draws of them.
    """
    return [
        models.run(j.recording, DEFAULT_COST_MODEL, size, seed, promise)
        for j in judged
        for promise in (None, j.promise)
        for size in sizes
        for seed in range(seeds)
    ]


def spearman(a: Floats, b: Floats) -> float:
    """Rank correlation; 0 where one of them is constant."""
    if len(a) < 2 or (a == a[0]).all() or (b == b[0]).all():
        return 0.0
    return float(spearmanr(a, b).statistic)


def _one(recording: Recording, prior: Prior) -> float:
    """What a schedule costs that is chosen without a measurement, as ``compile`` does where nothing is known."""
    found = []
    for seed in range(SEEDS):
        made = construct(recording.space, prior, np.random.default_rng(seed), CONSTRUCTED, DRAWN)
        made = made.take(np.argsort(ranks(prior(made)), kind="stable"))
        canonical, valid = recording.resolve(made)
        seconds = recording.seconds[recording.space.keys(canonical)[valid]]
        found.append(seconds[np.isfinite(seconds)][0] / recording.optimum)
    return float(np.exp(np.log(found).mean()))


def _first(recording: Recording, prior: Prior) -> float:
    """What a construction finds; invalid points cost nothing, as in a search."""
    found = []
    for seed in range(SEEDS):
        planned = construct(recording.space, prior, np.random.default_rng(seed), 5 * FIRST_POINTS)
        canonical, valid = recording.resolve(planned)
        keys = recording.space.keys(canonical)[valid]
        distinct = keys[np.sort(np.unique(keys, return_index=True)[1])]
        found.append(recording.seconds[distinct[:FIRST_POINTS]].min() / recording.optimum)
    return float(np.mean(found))


def _chance(seconds: Floats) -> float:
    """The expected least of ``FIRST_POINTS`` points drawn without replacement; failures count as the slowest."""
    ordered = np.sort(np.where(np.isfinite(seconds), seconds, seconds[np.isfinite(seconds)].max()))
    left = len(ordered) - np.arange(len(ordered))
    # P(the i-th smallest is the least of the draw): it is in, and the draw has none before it.
    none_before = np.concatenate([[1.0], np.cumprod(np.maximum(left - FIRST_POINTS, 0) / left)])[:-1]
    return float((ordered * none_before * np.minimum(1.0, FIRST_POINTS / left)).sum())


def report(judged: Sequence[Judged], setup: dict[str, str]) -> Report:
    """One line per space.

    Raises:
        InvalidInput: nothing was judged.
    """
    if not judged:
        raise InvalidInput("no recording has the sketches that this version makes", field="data")
    rows = [
        {
            "space": j.recording.name,
            "points": len(j.recording.points),
            "estimated, %": round(100 * j.known, 1),
            "refused, %": round(100 * j.refused, 1),
            "rank correlation": round(j.correlation, 3),
            "first one / optimum": round(j.one, 3),
            "first ten / optimum": round(j.first, 3),
            "ten random / optimum": round(j.chance, 3),
        }
        for j in judged
    ]
    mean = float(np.mean([j.correlation for j in judged]))
    ones = np.array([j.one for j in judged])
    summary = (
        "The static model, which sees decisions and nothing measured, against recorded latencies. Spearman's rank "
        f"correlation is {mean:.2f} in the mean. The best of the first {FIRST_POINTS} points that it constructs, "
        "and of as many random ones, is given over the optimum of the space. So is the one that it thinks fastest: "
        f"{np.exp(np.log(ones).mean()):.2f} in the geometric mean, within a tenth in {(ones <= CLOSE_RATIO).sum()} of "
        f"{len(ones)} spaces."
    )
    return Report.of("replay-static", "The static model, replayed", summary, rows, setup)


def report_learned(trials: Sequence[models.Trial], setup: dict[str, str]) -> Report:
    """What the promise is worth to a cost model."""
    return dataclasses.replace(
        models.report(trials, setup),
        name="replay-static-models",
        title="Cost models with the static model's promise and without",
    )
