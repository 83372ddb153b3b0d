"""ONNX's own cases of operators that are converted here, or whose shapes are computed: what ONNX's reference makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.onnx_cases import AGREES, Case, cases, outcome

pytestmark = pytest.mark.parallel
CHOSEN = (
    "attention_4d_with_past", "attention_4d_causal", "attention_3d_gqa", "attention_local_window", "nan_robustness",
    "with_qk_matmul_softcap", "rms_normalization_3d", "l1normalization", "l2normalization", "lpnormalization",
    "reversesequence", "test_rotary_embedding", "center_crop_pad", "swiglu", "test_pow", "test_shape", "spacetodepth",
    "batchnorm", "layer_normalization_3d_axis1_epsilon_expanded",
)  # fmt: skip
"""Parts of the names."""
REFUSED = ("nonpad", "mask4d_padded_kv", "ext_cache", "crd_mode", "training_mode")
"""Parts of the names of those that are refused: keys beyond a length, another order, statistics of a batch."""
FOUND = [case for case in cases(CHOSEN) if "_expanded" not in case.name or "layer_normalization" in case.name]


@pytest.mark.parametrize("case", FOUND, ids=[case.name for case in FOUND])
def test_a_case_of_onnx_agrees_or_is_refused(tmp_path: Path, case: Case) -> None:
    said = outcome(case, tmp_path)
    if any(part in case.name for part in REFUSED):
        assert said == AGREES or said.startswith("unsupported_operator")
    else:
        assert said == AGREES
