"""Operands that depend on inputs, and programs that are right for all inputs that make the declared shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.helper import make_node

from tools.sweep.base import AGREES, Case
from tools.sweep.onnx_cases import cases
from tools.sweep.running import compare

pytestmark = pytest.mark.parallel
NAMES = (
    "test_affine_grid_2d_expanded",
    "test_center_crop_pad_crop_and_pad_expanded",
    "test_hannwindow_symmetric_expanded",
    "test_stft",
    "test_tfidfvectorizer_tf_batch_uniandbigrams_skip5",
    "test_resize_tf_crop_and_resize_axes_2_3",
    "test_top_k_uint64",
)
MODULES = ("affinegrid", "center_crop_pad", "hannwindow", "stft", "tfidfvectorizer", "resize", "topk")
"""Of ONNX, that make the cases with these names."""
BOUNDS = {"a": (-4, -1), "b": (-100, 3)}
"""Starts and ends of slices of three elements of ten."""
PADS = {"e": (1, 2, 0, 3), "f": (9, 0, -12, 10), "g": (3, -2, 2, 5)}
"""Pads before and behind ten elements, and bounds of slices of three elements of all of them."""


def test_operands_may_all_be_inputs(tmp_path: Path) -> None:
    found = {case.name: compare(case, tmp_path) for case in cases(NAMES, MODULES) if case.name in NAMES}
    assert found == dict.fromkeys(NAMES, (AGREES, ""))


def test_slices_begin_where_an_input_says(tmp_path: Path) -> None:
    nodes, outputs, value = [], [], helper.make_tensor_value_info
    inputs: dict[str, NDArray[Any]] = {}
    for name, (start, end) in BOUNDS.items():
        inputs |= {f"{name}0": np.array([start]), f"{name}1": np.array([end])}
        nodes.append(make_node("Slice", ["x", f"{name}0", f"{name}1", "axis"], [name]))
    for name, (before, behind, start, end) in PADS.items():
        inputs |= {f"{name}p": np.array([before, behind]), f"{name}0": np.array([start]), f"{name}1": np.array([end])}
        nodes += [
            make_node(
                "Pad", ["x", f"{name}p", "", "axis"], [f"{name}w"], mode="reflect" if name == "e" else "constant"
            ),
            make_node("Slice", [f"{name}w", f"{name}0", f"{name}1", "axis"], [name]),
            make_node("Shape", [f"{name}w"], [f"{name}s"]),
        ]
        outputs.append(value(f"{name}s", TensorProto.INT64, [2]))
    outputs += [value(name, TensorProto.FLOAT, [2, 3]) for name in (*BOUNDS, *PADS)]
    given = [value("x", TensorProto.FLOAT, [2, 10]), *(value(n, TensorProto.INT64, a.shape) for n, a in inputs.items())]
    graph = helper.make_graph(nodes, "g", given, outputs, [onnx.numpy_helper.from_array(np.array([-1]), "axis")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    inputs = {"x": np.random.default_rng(0).standard_normal((2, 10), np.float32), **inputs}
    written, arrays = model.SerializeToString(), tuple(inputs.values())
    expected = tuple(onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"]).run(None, inputs))
    case = Case("slices", "Slice", "onnx", written, arrays, expected, (), 0.0, 0.0)
    assert compare(case, tmp_path) == (AGREES, "")
