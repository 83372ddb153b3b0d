"""Models that learned from the repository's dataset, as files beside this module; ``CARD.md`` tells of each."""

from __future__ import annotations

import functools
from importlib.resources import files

from costmodels.base import CostModel

X86 = "code-ranker-x86.json"
FAMILIES = ("batch_matmul", "conv2d", "dense", "depthwise_conv2d", "layer_norm", "matmul", "softmax")
"""What it learned from. Code of other families, such as pooling, is unlike all that it has seen."""


@functools.cache
def code_ranker() -> CostModel:
    """The code ranker of float32 programs for x86 CPUs with AVX-512.

    Raises:
        ValueError: the file was changed, or is of other columns than this version's.
    """
    from costmodels.code_ranker import CodeRankerModel  # brings LightGBM

    return CodeRankerModel.load(files(__name__).joinpath(X86).read_bytes())


@functools.cache
def ranker() -> CostModel:
    """The ranker of float32 programs for x86 CPUs.

    Raises:
        ValueError: as for :func:`code_ranker`.
    """
    from costmodels.ranker import RankerModel  # brings LightGBM

    return RankerModel.load(files(__name__).joinpath("ranker-x86.json").read_bytes())
