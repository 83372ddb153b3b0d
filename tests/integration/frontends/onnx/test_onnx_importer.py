"""Operators that TVM's own importer takes for something else: against onnxruntime, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from one_operator import both, by_tvm, write
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from small_nets import calls, run_network

from tunesmith.errors import UnsupportedOperator
from tunesmith.preparation import Preparation
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import pipeline

pytestmark = pytest.mark.parallel
SHAPE = (1, 4, 9, 11)
SCALES = np.array([2.0, 0.5, -1.0], np.float32)


@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 1), (2, 2), (3, 2), (3, 3), (4, 3)])
def test_pools_padded_to_the_same_size(tmp_path: Path, kernel: int, stride: int, padding: str) -> None:
    attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "auto_pad": padding}
    ours, theirs = both(write(tmp_path / "m.onnx", "MaxPool", SHAPE, 17, attrs, {}, []), SHAPE)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "attrs",
    [
        {"strides": [2, 2], "output_shape": [18, 22]},
        {"strides": [2, 2], "output_shape": [18, 21], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 3], "output_shape": [17, 35], "auto_pad": "SAME_LOWER"},
        {"strides": [3, 3], "output_shape": [27, 33], "output_padding": [1, 0]},
        {"strides": [2, 2], "output_shape": [19, 22], "dilations": [2, 1]},
    ],
    ids=str,
)
def test_transposed_convolutions_of_a_given_size(tmp_path: Path, attrs: dict[str, Any]) -> None:
    weight = np.random.default_rng(1).standard_normal((4, 3, 3, 3), np.float32)
    given = {"w": weight, "b": SCALES}
    ours, theirs = both(write(tmp_path / "m.onnx", "ConvTranspose", SHAPE, 17, attrs, given, ["w", "b"]), SHAPE)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("shape", [SHAPE, (2, 4, 7), (1, 4, 3, 4, 5)], ids=str)
def test_normalisations_of_single_channels(tmp_path: Path, shape: tuple[int, ...]) -> None:
    given = {"s": np.array([1, -2, 3, 0.5], np.float32), "b": np.array([0, 1, 2, -1], np.float32)}
    path = write(tmp_path / "m.onnx", "InstanceNormalization", shape, 17, {"epsilon": 1e-3}, given, ["s", "b"])
    x = 100.0 + np.random.default_rng(0).standard_normal(shape, np.float32)  # a sum of squares would lose the variance
    (theirs,) = ReferenceEvaluator(str(path)).run(None, {"x": x})
    for blocked in (False, True):
        made = pipeline.prepare(import_model.import_model(path, "onnx"), Preparation(blocked))
        np.testing.assert_allclose(run_network(made, x)[0], theirs, atol=1e-3)
    assert set(calls(made.module)) == {"group_norm", "reshape"}, "a function that has a rule"


@pytest.mark.parametrize(
    ("name", "opset", "attrs"), [("Celu", 12, {"alpha": 0.6}), ("Celu", 17, {}), ("Swish", 24, {})]
)
def test_operators_that_onnx_defines_by_others(tmp_path: Path, name: str, opset: int, attrs: dict[str, Any]) -> None:
    path = write(tmp_path / "m.onnx", name, SHAPE, opset, attrs, {}, [])
    x = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    (theirs,) = ReferenceEvaluator(str(path)).run(None, {"x": x})
    np.testing.assert_allclose(by_tvm(import_model.import_model(path, "onnx"), x), theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("attrs", "shape"),
    [
        ({"value_float": 0.5}, ()),
        ({"value_floats": [0.5, -1.0]}, (2,)),
        ({"value": numpy_helper.from_array(SCALES)}, (3,)),
    ],
    ids=["float", "floats", "tensor"],
)
def test_constants_in_the_graph(tmp_path: Path, attrs: dict[str, Any], shape: tuple[int, ...]) -> None:
    value, dims = helper.make_tensor_value_info, (4, *shape)
    nodes = [
        helper.make_node("Constant", [], ["c"], **attrs),
        helper.make_node("Constant", [], ["s"], value_ints=dims),
        helper.make_node("Mul", ["x", "c"], ["m"]),
        helper.make_node("Reshape", ["m", "s"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, dims)], [value("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    ours, theirs = both(tmp_path / "m.onnx", dims)
    np.testing.assert_array_equal(ours, theirs)


def test_masks_are_made_while_a_model_is_imported(tmp_path: Path) -> None:
    """Nothing of a window's size is cut off, which TVM cannot lower."""
    value, dims = helper.make_tensor_value_info, [50, 60]
    given = {"mask": np.arange(3000, dtype=np.float32).reshape(dims), "from": np.array([0]), "to": np.array([-50])}
    nodes = [
        helper.make_node("Slice", ["mask", "from", "to"], ["none"]),
        helper.make_node("Concat", ["none", "mask"], ["all"], axis=0),
        helper.make_node("Greater", ["all", "limit"], ["later"]),
        helper.make_node("Where", ["later", "all", "limit"], ["bound"]),
        helper.make_node("Add", ["x", "bound"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, dims)],
        [value("y", TensorProto.FLOAT, dims)],
        [numpy_helper.from_array(array, name) for name, array in (*given.items(), ("limit", np.float32([70.0])))],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    script = import_model.import_model(tmp_path / "m.onnx", "onnx").script()
    assert [name for name in ("where", "concat", "strided_slice", "add") if f"R.{name}(" in script] == ["add"]
    ours, theirs = both(tmp_path / "m.onnx", dims)
    np.testing.assert_array_equal(ours, theirs)


def test_functions_of_a_models_own(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Add", ["a", "b"], ["c"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("twice", ["x"], ["y"], domain="own")],
        "g",
        [value("x", TensorProto.FLOAT, SHAPE)],
        [value("y", TensorProto.FLOAT, SHAPE)],
    )
    function = helper.make_function("own", "twice", ["a"], ["c"], body, opsets[:1])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[function]), tmp_path / "m.onnx")
    ours, theirs = both(tmp_path / "m.onnx", SHAPE)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_an_output_that_no_stride_reaches_is_refused(tmp_path: Path) -> None:
    given = {"w": np.zeros((4, 3, 3, 3), np.float32)}
    path = write(tmp_path / "m.onnx", "ConvTranspose", SHAPE, 17, {"output_shape": [30, 40]}, given, ["w"])
    with pytest.raises(UnsupportedOperator, match=r"ConvTranspose.*an output_shape of \[30, 40\]"):
        import_model.import_model(path, "onnx")
