"""Cost models by name; a library is imported when one of its models is asked for."""

from __future__ import annotations

import importlib

from costmodels.base import CostModel
from tunesmith.errors import UnknownCostModel
from tunesmith.names import RANKER
from tunesmith.registry import Registry

COST_MODELS: Registry[str] = Registry(
    "cost_model",
    UnknownCostModel,
    {
        "xgboost": "costmodels.xgboost_model:XGBoostModel",
        "lightgbm": "costmodels.lightgbm_model:LightGBMModel",
        RANKER: "costmodels.ranker:RankerModel",
    },
)
"""Name to module and class."""


def cost_model_class(name: str) -> type[CostModel]:
    """The class behind a name.

    Raises:
        UnknownCostModel: naming those that there are.
    """
    module, attribute = COST_MODELS[name].split(":")
    found: type[CostModel] = getattr(importlib.import_module(module), attribute)
    return found


def make_cost_model(name: str, seed: int) -> CostModel:
    """A model to be fitted.

    Raises:
        UnknownCostModel: see :func:`cost_model_class`.
    """
    factory: type = cost_model_class(name)
    model: CostModel = factory(seed=seed)
    return model


def load_cost_model(kind: str, data: bytes) -> CostModel:
    """A saved model.

    Raises:
        UnknownCostModel: see :func:`cost_model_class`.
        ValueError: when the bytes are of another kind or format.
    """
    return cost_model_class(kind).load(data)
