"""ONNX's own cases of operators that are converted here, or whose shapes are computed: what ONNX's reference makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from effort import some

from tools.onnx_cases import AGREES, Case, cases, outcome

pytestmark = pytest.mark.parallel
CHOSEN = (
    "attention_4d_with_past",
    "attention_4d_causal",
    "attention_3d_gqa",
    "attention_local_window",
    "nan_robustness",
    "with_qk_matmul_softcap",
    "rms_normalization_3d",
    "l1normalization",
    "l2normalization",
    "lpnormalization",
    "reversesequence",
    "test_rotary_embedding",
    "center_crop_pad",
    "swiglu",
    "test_pow",
    "test_shape",
    "spacetodepth",
    "batchnorm",
    "layer_normalization_3d_axis1_epsilon_expanded",
    "test_dft",
    "test_stft",
)
"""Parts of the names."""
MODULES = (
    "attention",
    "rmsnormalization",
    "lpnormalization",
    "reversesequence",
    "rotaryembedding",
    "center_crop_pad",
    "swiglu",
    "pow",
    "shape",
    "spacetodepth",
    "batch_normalization",
    "layernormalization",
    "dft",
    "stft",
)
"""Of ONNX, that make them."""
REFUSED = ("nonpad", "ext_cache", "crd_mode", "training_mode")
"""Parts of the names of those that are refused: keys beyond a length, another order, statistics of a batch."""


@pytest.fixture(scope="module")
def chosen() -> list[Case]:
    """Made once, and not while tests are collected: ONNX makes all cases of an operator at a time."""
    return [
        case for case in cases(CHOSEN, MODULES) if "_expanded" not in case.name or "layer_normalization" in case.name
    ]


def refusal(name: str) -> str:
    """The part of a name for which it is refused; empty when it is not."""
    return next((word for word in REFUSED if word in name), "")


@pytest.mark.parametrize("part", CHOSEN)
def test_the_cases_of_onnx_agree_or_are_refused(tmp_path: Path, chosen: list[Case], part: str) -> None:
    tried = some((case for case in chosen if part in case.name), kind=lambda case: refusal(case.name), each=3)
    said = {case.name: outcome(case, tmp_path) for case in tried}
    assert said
    refused = {name for name in said if refusal(name)}
    assert {name: what for name, what in said.items() if what != AGREES and name not in refused} == {}
    assert all(said[name].startswith("unsupported_operator") for name in refused)
