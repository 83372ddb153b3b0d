"""What an ONNX file says beside its usual form: computed as onnxruntime does, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from one_operator import all_by_tvm, by_tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node
from small_nets import by_onnxruntime, run_network

from tunesmith.errors import TunesmithError
from tunesmith.preparation import Preparation
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import pipeline

pytestmark = pytest.mark.parallel
Array = NDArray[Any]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(3)


def write(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[int]]],
    outputs: dict[str, int],
    weights: dict[str, Array] | None = None,
    opset: int = 17,
) -> Path:
    given = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    made = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    stored = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", given, made, stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4), path)
    return path


def by_runtime(path: Path, x: Array) -> list[Array]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, {"x": x})
    return found


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_operands_are_broadcast_along_an_axis_as_before_opset_7(tmp_path: Path, axis: int) -> None:
    x, bias = RNG.standard_normal((2, 3, 4)).astype(np.float32), RNG.standard_normal((2, 3, 4)[axis]).astype(np.float32)
    nodes = [make_node("Add", ["x", "b"], ["s"], broadcast=1, axis=axis), make_node("Mul", ["s", "x"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, {"x": (FLOAT, [2, 3, 4])}, {"y": FLOAT}, {"b": bias}, 6)
    along = bias.reshape([-1 if at == axis else 1 for at in range(3)])
    np.testing.assert_allclose(by_tvm(import_model.import_model(path, "onnx"), x), (x + along) * x, rtol=1e-6)


def test_slices_have_their_bounds_as_attributes_before_opset_10(tmp_path: Path) -> None:
    x = RNG.standard_normal((1, 3, 8, 8)).astype(np.float32)
    nodes = [
        make_node("Slice", ["x"], ["s"], axes=[2, 3], starts=[1, -5], ends=[7, np.iinfo(np.int64).max]),
        make_node("Slice", ["s"], ["t"], starts=[0, 1], ends=[1, 3]),
        make_node("Pad", ["t"], ["p"], mode="constant", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.5),
        make_node("Clip", ["p"], ["y"], min=-1.0, max=1.0),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"x": (FLOAT, [1, 3, 8, 8])}, {"y": FLOAT}, opset=9)
    np.testing.assert_array_equal(by_tvm(import_model.import_model(path, "onnx"), x), by_runtime(path, x)[0])


@pytest.mark.parametrize("values", [np.array([0.5, 2.5], np.float32), np.array([-1, 7])], ids=["float", "int"])
@pytest.mark.parametrize(("depth", "axis"), [(np.array(3), -1), (np.array([3]), 0)])
def test_one_hot_of_any_type_and_of_indices_from_the_end(
    tmp_path: Path, depth: Array, axis: int, values: Array
) -> None:
    nodes = [make_node("OneHot", ["x", "d", "v"], ["y"], axis=axis)]
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    path = write(tmp_path / "m.onnx", nodes, {"x": (INT64, [2, 4])}, {"y": kind}, {"d": depth, "v": values})
    x = RNG.integers(-3, 3, (2, 4))
    ours, (theirs,) = by_tvm(import_model.import_model(path, "onnx"), x), by_runtime(path, x)
    np.testing.assert_array_equal(ours, theirs)
    assert ours.dtype == theirs.dtype


def test_the_mask_of_a_dropout_is_of_truth_values(tmp_path: Path) -> None:
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    nodes = [make_node("Dropout", ["x"], ["y", "mask"])]
    path = write(tmp_path / "m.onnx", nodes, {"x": (FLOAT, [2, 4])}, {"y": FLOAT, "mask": BOOL})
    for ours, theirs in zip(all_by_tvm(import_model.import_model(path, "onnx"), x), by_runtime(path, x), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def test_tensors_without_elements_are_inputs_and_outputs(tmp_path: Path) -> None:
    nodes = [make_node("Concat", ["past", "x"], ["y"], axis=1), make_node("Identity", ["e"], ["z"])]
    inputs = {"x": (FLOAT, [1, 8, 4]), "past": (FLOAT, [1, 0, 4])}
    weights = {"e": np.zeros((2, 3, 0), np.float32)}
    path = write(tmp_path / "m.onnx", nodes, inputs, {"y": FLOAT, "z": FLOAT}, weights)
    given = RNG.standard_normal((1, 8, 4)).astype(np.float32), np.zeros((1, 0, 4), np.float32)
    made = pipeline.prepare(import_model.import_model(path, "onnx"), Preparation())
    for ours, theirs in zip(run_network(made, *given), by_onnxruntime(path, *given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


X = {"x": (FLOAT, [1, 4, 6, 6])}
BOXES = {"x": (FLOAT, [1, 4, 4]), "scores": (FLOAT, [1, 1, 4]), "most": (INT64, [1])}
TRUE, HALF = np.array(True), np.array(0.5, np.float32)


@pytest.mark.parametrize(
    ("node", "inputs", "weights", "opset", "words"),
    [
        (make_node("Dropout", ["x", "p", "t"], ["y"]), X, {"p": HALF, "t": TRUE}, 13, "training_mode"),
        (make_node("Dropout", ["x", "p", "t"], ["y"]), {**X, "t": (BOOL, [])}, {"p": HALF}, 13, "training_mode, 't'"),
        (make_node("Dropout", ["x"], ["y"]), X, {}, 6, "is_test 0"),
        (make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2]), X, {}, 12, "the places of its maxima"),
        (make_node("Range", ["a", "b", "c"], ["y"], name="r"), dict.fromkeys("abc", (INT64, [])), {}, 13, "Range 'r'"),
        (make_node("Expand", ["x", "s"], ["y"]), {**X, "s": (INT64, [4])}, {}, 13, "a constant shape"),
        (make_node("NonMaxSuppression", ["x", "scores", "most"], ["y"]), BOXES, {}, 11, "max_output_boxes_per_class"),
        (make_node("Identity", ["x"], ["y"]), {"x": (TensorProto.STRING, [4])}, {}, 13, "input 'x' is of text"),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_what_would_be_something_else_is_refused_by_name(
    tmp_path: Path, node: onnx.NodeProto, inputs: Any, weights: Any, opset: int, words: str
) -> None:
    path = write(tmp_path / "m.onnx", [node], inputs, {"y": FLOAT}, weights, opset)
    with pytest.raises(TunesmithError) as refused:
        import_model.import_model(path, "onnx")
    assert words in str(refused.value)
    assert node.op_type in str(refused.value) or "input" in str(refused.value)


def test_weights_of_four_bits_are_unpacked(tmp_path: Path) -> None:
    nodes = [
        make_node("DequantizeLinear", ["w", "scale"], ["f"], axis=0, block_size=2),
        make_node("MatMul", ["x", "f"], ["y"]),
    ]
    scales = np.array([[0.5, 1, 2, 4], [1, 2, 3, 4]], np.float32)
    path = write(tmp_path / "m.onnx", nodes, {"x": (FLOAT, [1, 4])}, {"y": FLOAT}, {"scale": scales}, 21)
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.INT4, [4, 4], range(-8, 8)))
    onnx.save(model, path)
    x = RNG.standard_normal((1, 4)).astype(np.float32)
    expected = x @ (np.arange(-8.0, 8).reshape(4, 4) * np.repeat(scales, 2, 0))
    np.testing.assert_allclose(by_tvm(import_model.import_model(path, "onnx"), x), expected, rtol=1e-5)
