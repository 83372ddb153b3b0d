"""TVM's own XGBoost model on given rows, to be compared with.

The MLPModel is left out: TVM 0.27 trains it with an argument that PyTorch has removed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from tvm.runtime import tensor
from tvm.s_tir import meta_schedule as ms
from tvm.tirx import IntImm

from costmodels.base import Features, Floats, TrainingSet

NEVER = 1 << 60
NAME = "TVM XGBModel"


class _Rows:
    """Stands for an extractor: candidates are rows already."""

    def extract_from(self, context: Any, candidates: list[Any]) -> list[Any]:
        return candidates


def scores(data: TrainingSet, features: Features, seed: int) -> Floats:
    """What TVM's ``XGBModel`` says of programs after it learned from others, float64 [n]. It has no seed."""
    # The object behind TVM's handle takes anything for a candidate.
    model = ms.cost_model.XGBModel(num_warmup_samples=1, verbose_eval=0, num_tuning_cores=1)._inst
    model.extractor = _Rows()
    groups = np.unique(data.group)
    for number in groups:
        mine = np.flatnonzero(data.group == number)
        # It would train again for each workload: only the last one brings it to that.
        model.last_train_size = 0 if number == groups[-1] else NEVER
        results = [SimpleNamespace(run_secs=[each] if np.isfinite(each) else []) for each in data.latency[mine]]
        model.update(SimpleNamespace(mod=IntImm("int64", int(number))), _programs(data.features.take(mine)), results)
    return np.asarray(model.predict(None, _programs(features)), dtype=np.float64)


def _programs(features: Features) -> list[Any]:
    return [tensor(features.rows[a:b]) for a, b in zip(features.offsets, features.offsets[1:], strict=False)]
