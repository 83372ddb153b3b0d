"""Names that are validated where the code behind them may not be imported."""

from __future__ import annotations

from typing import Final

NO_COST_MODEL: Final = "none"
"""Search without a learned ranking."""

RANKER: Final = "ranker"
CODE_RANKER: Final = "code ranker"
"""The static model, corrected by a forest on decision rows."""

COST_MODELS: Final = ("xgboost", "lightgbm", RANKER, NO_COST_MODEL)
"""Every value of a job's ``cost_model``; ``costmodels.registry`` is tested to agree."""

ALL_SPACE: Final = "all"
"""Every sketch that is known of: TVM's and Tunesmith's functions, in a model prepared as its target wants it."""
TVM_SPACE: Final = "tvm"
"""What TVM's own generator makes of the model as TVM prepares it: the design space of MetaSchedule."""
SPACES: Final = (ALL_SPACE, TVM_SPACE)
"""Every value of a job's ``space``."""

OPERATOR: Final = "operator"
OPERATORS: Final = "operators"
"""Sources of models that are no file of a user's: an operator spec, and a list of them."""

FLOAT32: Final = "float32"
"""A model is computed in its own types."""
BF16: Final = "bf16"
"""Products of operands that are rounded to bfloat16, summed in float32; feature maps are stored as bfloat16."""
INT8: Final = "int8"
"""Products of a quantised model on bytes, summed in int32; feature maps are stored as bytes."""
PRECISIONS: Final = (FLOAT32, BF16, INT8)
"""Every precision that a model is computed in."""
AUTO: Final = "auto"
"""The fastest of them whose outputs stay close to float32's; a job that asks for it gets one before its first task."""

DEFAULT_PRECISION: Final = FLOAT32
DEFAULT_SPACE: Final = ALL_SPACE
DEFAULT_SEARCHER: Final = "genetic"
DEFAULT_SAMPLER: Final = "uniform"
SAMPLERS: Final = (DEFAULT_SAMPLER, "guided", "representative")
"""Searches that choose what to label, and not what may be fastest."""
DEFAULT_ALLOCATOR: Final = "bandit"
DEFAULT_COST_MODEL: Final = "xgboost"

DEFAULT_URL: Final = "http://127.0.0.1:8700"
"""Where a client looks for the coordinator."""

CONNECTION_FILE: Final = "connection.json"
MEASURING: Final = "measuring"
"""Where the settings of measure workers are in it."""
"""In the data directory of a running ``tunesmith up``: the settings with which another worker joins it."""

FEATURES: Final = "tvm.per_store+static/1"
"""What most cost models see, and its version: TVM's features of each store, and the static model's promise."""
DECISIONS: Final = "decisions/8"
"""What the ranker sees, and its version: see ``tunesmith.analysis.rows``."""


def features_of(cost_model: str) -> str:
    """The extractor, and its version, that a cost model is trained on."""
    return DECISIONS if cost_model == RANKER else FEATURES
