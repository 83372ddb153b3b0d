"""XGBoost (Chen and Guestrin, KDD 2016) with the pack-sum objective."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import xgboost

from costmodels.base import Floats, Floats32
from costmodels.boosting import BoostedModel, Objective

PARAMETERS = {
    "max_depth": 6,
    "eta": 0.2,
    "gamma": 0.001,
    "min_child_weight": 0,
    "tree_method": "hist",
    "max_bin": 64,
    "base_score": 0.0,
    "nthread": 1,
    "disable_default_eval_metric": True,
    "verbosity": 0,
}
"""Depth and step as in TenSet (Zheng et al., NeurIPS 2021), minimum gain as in MetaSchedule; histograms for speed."""


class XGBoostModel(BoostedModel[xgboost.Booster]):
    """Depth-limited trees on histograms."""

    kind: ClassVar[str] = "xgboost"

    def _start(self, rows: Floats32, seed: int) -> tuple[xgboost.Booster, Any]:
        data = xgboost.DMatrix(rows, label=np.zeros(len(rows)), nthread=1)
        return xgboost.Booster({**PARAMETERS, "seed": seed}, [data]), data

    def _grow(self, booster: xgboost.Booster, data: Any, iteration: int, objective: Objective) -> None:
        booster.update(data, iteration, fobj=lambda margins, _: objective(margins))

    def _margins(self, booster: xgboost.Booster, rows: Floats32) -> Floats:
        return np.asarray(booster.inplace_predict(rows, predict_type="margin"), dtype=np.float64)

    def _dump(self, booster: xgboost.Booster) -> bytes:
        return bytes(booster.save_raw("ubj"))

    @classmethod
    def _parse(cls, data: bytes) -> xgboost.Booster:
        booster = xgboost.Booster({"nthread": 1})
        try:
            booster.load_model(bytearray(data))
        except xgboost.core.XGBoostError as error:
            raise ValueError(f"XGBoost cannot read it: {error}") from error
        return booster
