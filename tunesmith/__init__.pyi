from tunesmith import torch as torch
from tunesmith import tvm as tvm
from tunesmith.sdk.tuned import TunedModel as TunedModel
from tunesmith.sdk.tuning import tune as tune

__version__: str
