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


def test_every_cost_model_is_checked() -> None:
    checked = {cls.model for cls in CostModelConformance.__subclasses__()}
    assert checked == {cost_model_class(name) for name in COST_MODELS}
