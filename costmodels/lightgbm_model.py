"""LightGBM (Ke et al., NeurIPS 2017) with the pack-sum objective."""

from __future__ import annotations

from typing import Any, ClassVar

import lightgbm
import numpy as np

from costmodels.base import Floats, Floats32
from costmodels.boosting import BoostedModel, Objective

PARAMETERS = {
    "num_leaves": 15,
    "learning_rate": 0.1,
    "min_data_in_leaf": 3,
    "min_data_in_bin": 1,
    "max_bin": 63,
    "feature_fraction": 0.9,
    "feature_pre_filter": False,
    "objective": "none",
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
"""Small leaves and bins because the first models see a few dozen programs; without the pre-filter none is too few."""


class LightGBMModel(BoostedModel[lightgbm.Booster]):
    """Leaf-wise trees on histograms."""

    kind: ClassVar[str] = "lightgbm"

    def _start(self, rows: Floats32, seed: int) -> tuple[lightgbm.Booster, Any]:
        parameters = {**PARAMETERS, "seed": seed}
        data = lightgbm.Dataset(rows, label=np.zeros(len(rows)), params=parameters)
        return lightgbm.Booster(parameters, data), data

    def _grow(self, booster: lightgbm.Booster, data: Any, iteration: int, objective: Objective) -> None:
        booster.update(fobj=lambda margins, _: objective(margins))

    def _margins(self, booster: lightgbm.Booster, rows: Floats32) -> Floats:
        return np.asarray(booster.predict(rows, raw_score=True, num_threads=1), dtype=np.float64)

    def _dump(self, booster: lightgbm.Booster) -> bytes:
        text: str = booster.model_to_string()
        return text.encode()

    @classmethod
    def _parse(cls, data: bytes) -> lightgbm.Booster:
        try:
            return lightgbm.Booster(model_str=data.decode())
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"LightGBM cannot read it: {error}") from error
