"""ONNX's own cases of operators that are converted here, or whose shapes are computed: what ONNX's reference makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from effort import some

from tools.sweep.base import AGREES, Case
from tools.sweep.onnx_cases import cases, with_constants
from tools.sweep.running import compare

pytestmark = pytest.mark.parallel
TYPES = frozenset({"float32", "float64", "int64", "int32", "int8", "uint8", "bool"})
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
    "layer_normalization_3d_axis1_epsilon_expanded",
    "test_dft",
    "test_stft",
    "downsample_sizes_nearest_not_larger",
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
    "layernormalization",
    "dft",
    "stft",
    "resize",
)
"""Of ONNX, that make them."""
WITH_INPUTS = {
    "test_ai_onnx_ml_tree_ensemble_set_membership": "ai_onnx_ml.tree_ensemble",
    "test_batchnorm_epsilon_training_mode": "batch_normalization",
    "test_convinteger_with_padding": "convinteger",
    "test_lstm_with_peepholes": "lstm",
    "test_melweightmatrix": "melweightmatrix",
    "test_optional_get_element_optional_tensor": "optionalgetelement",
    "test_optional_has_element_empty_no_input_tensor_input": "optionalhaselement",
    "test_scan_sum": "scan",
    "test_resize_tf_crop_and_resize_axes_2_3": "resize",
    "test_sequence_map_add_1_sequence_1_tensor": "sequence_map",
    "test_stft_with_window": "stft",
    "test_tfidfvectorizer_tf_batch_uniandbigrams_skip5": "tfidfvectorizer",
    "test_top_k_uint64": "topk",
}
"""Cases in which every input stays one, with the module of each."""


@pytest.fixture(scope="module")
def chosen() -> list[Case]:
    """Made once, and not while tests are collected: ONNX makes all cases of an operator at a time."""
    return [
        _with_one_input(case)
        for case in cases(CHOSEN, MODULES)
        if ("_expanded" not in case.name or "layer_normalization" in case.name)
        and all(str(each.dtype) in TYPES for each in (*case.inputs, *case.expected))
    ]


def _with_one_input(case: Case) -> Case:
    """The first input of floating-point numbers stays one, the others become constants, as they are in models."""
    names = [value.name for value in onnx.ModelProto.FromString(case.model).graph.input]
    kept = next((at for at, each in enumerate(case.inputs) if each.dtype == np.float32), 0)
    return with_constants(case, {*names} - {names[kept]})


@pytest.mark.parametrize("part", CHOSEN)
def test_the_cases_of_onnx_agree(tmp_path: Path, chosen: list[Case], part: str) -> None:
    tried = some((case for case in chosen if part in case.name), kind=lambda case: None, each=1)
    found = {case.name: compare(case, tmp_path) for case in tried}
    assert found
    assert {name: what for name, what in found.items() if what[0] != AGREES} == {}


def test_cases_whose_every_input_stays_one_agree(tmp_path: Path) -> None:
    tried = [case for case in cases(list(WITH_INPUTS), list(WITH_INPUTS.values())) if case.name in WITH_INPUTS]
    assert {case.name: compare(case, tmp_path)[0] for case in tried} == dict.fromkeys(WITH_INPUTS, AGREES)


@pytest.mark.parametrize(
    ("name", "module", "words"),
    [
        ("test_if_opt", "if_", "If, which makes 'sequence', is not supported with a branch that makes no value"),
        ("test_loop13_seq", "loop", "for example with --input seq_empty.0="),
        ("test_sequence_insert_at_front", "sequenceinsert", "is not supported with a position that depends on"),
    ],
)
def test_sequences_that_are_not_fixed_are_refused_by_name(tmp_path: Path, name: str, module: str, words: str) -> None:
    (case,) = cases([name], [module])
    assert words in compare(case, tmp_path)[1]
