"""From measured batches to a fitted cost model and how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from costmodels.base import CostModel, Features, Floats, Guard, TrainingSet
from costmodels.metrics import Metrics, evaluate
from costmodels.registry import make_cost_model

SMALLEST_HOLDOUT = 8
"""Fewest held-out programs that say anything."""


@dataclass(frozen=True)
class Part:
    """Measured programs of one workload, e.g. of one batch.

    Attributes:
        workload: hash of the workload; parts of one workload are ranked among themselves.
        features: features of each program.
        latency: float64 [programs], seconds; infinity for a failure.
    """

    workload: str
    features: Features
    latency: Floats


@dataclass(frozen=True)
class Trained:
    """A model fitted on everything, and the metrics of one like it on programs held out.

    Attributes:
        model: fitted on all programs.
        metrics: on the held-out share, None when there are too few programs to hold some out.
        programs, valid: how many it was fitted on, and how many of them had a latency.
    """

    model: CostModel
    metrics: Metrics | None
    programs: int
    valid: int


def assemble(parts: Sequence[Part]) -> TrainingSet:
    """One training set of all parts, in their order.

    Raises:
        ValueError: when a part's latencies and features differ in number, or parts differ in feature width.
    """
    parts = [p for p in parts if len(p.latency) or len(p.features)]
    if any(len(p.latency) != len(p.features) for p in parts):
        raise ValueError("a part needs one latency per program")
    if len({p.features.rows.shape[1] for p in parts}) > 1:
        raise ValueError("the parts' features are of different widths")
    numbers = {name: i for i, name in enumerate(dict.fromkeys(p.workload for p in parts))}
    group = [np.full(len(p.latency), numbers[p.workload], dtype=np.int64) for p in parts]
    latency = [p.latency.astype(np.float64) for p in parts]
    return TrainingSet(
        Features.concat([p.features for p in parts]),
        np.concatenate([np.zeros(0), *latency]),
        np.concatenate([np.zeros(0, dtype=np.int64), *group]),
    )


def split(data: TrainingSet, share: float, seed: int) -> tuple[TrainingSet, TrainingSet]:
    """Training and held-out programs: of every workload the same share, at random (TenSet's within-task split)."""
    rng = np.random.default_rng(seed)
    held = np.zeros(len(data), dtype=np.bool_)
    for g in np.unique(data.group):
        rows = rng.permutation(np.flatnonzero(data.group == g))
        held[rows[: round(len(rows) * share)]] = True
    return data.take(np.flatnonzero(~held)), data.take(np.flatnonzero(held))


def assess(model: CostModel, data: TrainingSet) -> Metrics:
    """The metrics of a fitted model on ``data``."""
    mean, _ = model.predict(data.features)
    return evaluate(mean, data.latency, data.group)


def train(data: TrainingSet, name: str, seed: int, *, holdout: float = 0.1, guard: Guard = nullcontext) -> Trained:
    """Fit a model of this name on all of ``data``.

    Args:
        holdout: share of the programs for the metrics: a first model is fitted without them.
        guard: see :meth:`CostModel.fit`.

    Raises:
        UnknownCostModel: no model of that name.
        ValueError: when there is no valid latency.
    """
    model = make_cost_model(name, seed)
    model.fit(data, guard)
    return Trained(model, _held_out(data, name, seed, holdout, guard), len(data), int(np.isfinite(data.latency).sum()))


def _held_out(data: TrainingSet, name: str, seed: int, holdout: float, guard: Guard) -> Metrics | None:
    if not holdout:
        return None
    rest, held = split(data, holdout, seed)
    if len(held) < SMALLEST_HOLDOUT or not np.isfinite(rest.latency).any():
        return None
    probe = make_cost_model(name, seed)
    probe.fit(rest, guard)
    return assess(probe, held)
