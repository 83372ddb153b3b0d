from __future__ import annotations

from costmodels.lightgbm_model import LightGBMModel
from costmodels.ranker import RankerModel
from costmodels.registry import COST_MODELS, cost_model_class
from costmodels.testing import CostModelConformance, decision_part
from costmodels.xgboost_model import XGBoostModel


class TestXGBoost(CostModelConformance):
    model = XGBoostModel


class TestLightGBM(CostModelConformance):
    model = LightGBMModel


class TestRanker(CostModelConformance):
    model = RankerModel
    part = staticmethod(decision_part)
    workloads = (("a", 150), ("b", 150), ("a2", 150), ("b2", 150))
    pairs = 0.7
    """By seed 0.74 to 0.78 here; the estimates alone 0.62 to 0.68."""


def test_every_cost_model_is_checked() -> None:
    checked = {cls.model for cls in CostModelConformance.__subclasses__()}
    assert checked == {cost_model_class(name) for name in COST_MODELS}
