"""How fast decision rows, the static model and the forest are together, by operator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness.operators import load
from benchmarks.harness.report import Report
from costmodels.base import Features
from costmodels.ranker import RankerModel
from costmodels.testing import decision_part
from costmodels.training import assemble
from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.prior import StaticPrior
from tunesmith.names import FLOAT32
from tunesmith.space.base import PointBatch
from tunesmith.targets import Target
from workers.tvm_backend.design_space.space import TraceSpace

BATCH = 8192
"""Candidates of a sketch that are scored together."""
PASSES = 3
"""Times that each sketch is scored; the fastest counts."""
NESTS = 8
"""Places of blocks that are understood in each sketch: some sketches have hundreds, and each takes a while to read."""
TRAINED_ON = 8
"""Invented workloads that the forest learned from: as many trees as it ever has."""
CLASSES = (
    "gemm:1024x1024x1024",
    "dense:128x512x256",
    "bmm:12x64x64x64",
    "conv2d:1x64x56x56,64x64x3x3,s1,p1",
    "conv2d:1x256x14x14,128x256x1x1,s1,p0",
    "depthwise:1x128x28x28,k3,s1,p1",
    "softmax:12x128x128",
    "layernorm:128x768",
)


@dataclass(frozen=True)
class Rate:
    """Candidates a second of processor time: of the sketch for which it is slowest and fastest.

    Attributes:
        sketches: how many are understood, and were timed.
        mean, static: rate for all sketches, and that of the static model alone.
    """

    operator: str
    sketches: int
    slowest: float
    fastest: float
    mean: float
    static: float


def forest() -> RankerModel:
    """A forest of full size."""
    model = RankerModel()
    model.fit(assemble([decision_part(f"a{i}", 200, i) for i in range(TRAINED_ON)]))
    assert model.strength, "it has learned"
    return model


def rate(spec: str, target: Target, model: RankerModel, batch: int = BATCH) -> Rate:
    """Time every sketch of an operator that is understood."""
    operator = load(spec, target)
    rates, spent, alone = [], 0.0, 0.0
    for body in operator.bodies.values():
        traces = TraceSpace(operator.task.module, target, [body])
        prior = StaticPrior(traces.space, traces.nests, CpuModel())
        traces.nests.ration(NESTS)
        points = traces.space.sample(np.random.default_rng(0), batch)
        known = np.flatnonzero(~np.isnan(prior(points)))  # the first look derives the nests, too
        if not len(known):
            continue
        points = points.take(np.resize(known, batch))
        seconds = min(_spent(prior, points, operator.task.workload.family, model) for _ in range(PASSES))
        rates.append(batch / seconds)
        spent += seconds
        alone += min(_spent(prior, points) for _ in range(PASSES))
    scored = batch * len(rates)
    return Rate(spec, len(rates), min(rates), max(rates), scored / spent, scored / alone)


def _spent(prior: StaticPrior, points: PointBatch, family: str = "", model: RankerModel | None = None) -> float:
    """Processor time of the static model, or of rows and forest, for all points."""
    started = time.process_time()
    if model is None:
        prior(points)
    else:
        rows = prior.rows(points, family, FLOAT32)
        model.predict(Features(rows, np.arange(len(rows) + 1)))
    return time.process_time() - started


def report(found: Sequence[Rate], setup: dict[str, str]) -> Report:
    """One line for each operator."""
    rows: list[dict[str, Any]] = [
        {
            "operator": each.operator,
            "sketches": each.sketches,
            "slowest sketch, 1/s": round(each.slowest),
            "fastest sketch, 1/s": round(each.fastest),
            "all sketches, 1/s": round(each.mean),
            "static model alone, 1/s": round(each.static),
        }
        for each in found
    ]
    summary = (
        f"Candidates a second of processor time on one core, in batches of {BATCH} of one sketch: decision rows with "
        "the static model in them, and a forest of full size. The static model alone is for all sketches."
    )
    return Report.of("replay-rates", "Decision rows and the ranker", summary, rows, setup)
