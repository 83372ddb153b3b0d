"""What was learned of other workloads, beside the static model, before anything is measured of this one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from costmodels.base import CostModel, Features, Floats32
from costmodels.pretrained import FAMILIES, ranker
from tunesmith import extras
from tunesmith.analysis.prior import PIECE, StaticPrior, Unit
from tunesmith.names import FLOAT32
from tunesmith.search.turns import Turns
from tunesmith.space.base import Floats, PointBatch
from tunesmith.targets import Target
from workers.tvm_backend.design_space.rules.machine import cpu_model_of

AVX512 = 64
"""Bytes of the vectors that the shipped models know."""


def known(family: str, target: Target) -> bool:
    """Whether the shipped models learned from such programs.

    Args:
        family: the workload's.
    """
    if target.kind != "llvm" or family not in FAMILIES or not extras.here("lightgbm"):
        return False
    return cpu_model_of(target).vector_bytes == AVX512


def in_turn(prior: StaticPrior, model: CostModel, family: str, precision: str, unit: Unit) -> Turns:
    """The static model and a ranker, each with every other place of what is constructed."""
    return Turns(prior, Corrected(model, partial(prior.rows, family=family, precision=precision), unit))


def shipped(prior: StaticPrior, family: str, precision: str, target: Target, unit: Unit) -> Turns | None:
    """The static model in turn with the shipped ranker; None where that did not learn from such programs."""
    return in_turn(prior, ranker(), family, precision, unit) if precision == FLOAT32 and known(family, target) else None


class Corrected:
    """Seconds as a ranker corrects a static model's; NaN where that knows nothing. It refuses nothing.

    Args:
        model: ranks by decision rows.
        rows: the rows of a batch, which hold the static model's estimates.
        unit: is entered for each small piece of work.
    """

    def __init__(self, model: CostModel, rows: Callable[[PointBatch], Floats32], unit: Unit) -> None:
        self._model, self._rows, self._unit = model, rows, unit

    def __call__(self, batch: PointBatch) -> Floats:
        """Seconds, float64 [n]."""
        out = np.empty(len(batch))
        for start in range(0, len(batch), PIECE):
            rows = self._rows(batch.take(slice(start, start + PIECE)))
            with self._unit():
                scores, _ = self._model.predict(Features(rows, np.arange(len(rows) + 1)))
            out[start : start + PIECE] = np.exp2(-scores)
        return out
