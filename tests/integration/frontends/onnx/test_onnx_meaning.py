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

from tunesmith.errors import TunesmithError
from workers.tvm_backend.frontends import import_model

pytestmark = pytest.mark.parallel
Array = NDArray[Any]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
LEARNING = "ai.onnx.ml"
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
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(LEARNING, 5)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=4), path)
    return path


def by_runtime(path: Path, x: Array) -> list[Array]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, {"x": x})
    return found


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


def test_a_table_of_numbers_and_parts_of_one_size(tmp_path: Path) -> None:
    """Of ten columns six are in the first part."""
    table = {"keys_floats": [1.0, np.nan, 2.0], "values_int64s": [5, 6, 7], "default_int64": -9}
    nodes = [
        make_node("SplitToSequence", ["x", "six"], ["parts"], axis=1),
        make_node("SequenceAt", ["parts", "first"], ["part"]),
        make_node("LabelEncoder", ["part"], ["y"], domain=LEARNING, **table),
    ]
    weights = {"six": np.array(6), "first": np.array(0)}
    path = write(tmp_path / "m.onnx", nodes, {"x": (FLOAT, [2, 10])}, {"y": INT64}, weights)
    x = np.resize(np.array([1, 2, np.nan, 3], np.float32), (2, 10))
    np.testing.assert_array_equal(by_tvm(import_model.import_model(path, "onnx"), x), by_runtime(path, x)[0])


X = {"x": (FLOAT, [1, 4, 6, 6])}
TREE = {
    "nodes_modes": numpy_helper.from_array(np.zeros(1, np.uint8)),
    "nodes_splits": numpy_helper.from_array(np.zeros(1, np.float32)),
    "leaf_weights": numpy_helper.from_array(np.ones(1, np.float32)),
    **{f"nodes_{way}{what}": [int(what == "leafs")] for way in ("true", "false") for what in ("nodeids", "leafs")},
    **{"nodes_featureids": [2], "leaf_targetids": [0], "tree_roots": [0], "n_targets": 1},
}
"""One question for a third feature."""
HALF = np.array(0.5, np.float32)


@pytest.mark.parametrize(
    ("node", "inputs", "weights", "opset", "words"),
    [
        (make_node("Dropout", ["x", "p", "t"], ["y"]), {**X, "t": (BOOL, [])}, {"p": HALF}, 13, "training_mode, 't'"),
        (make_node("Dropout", ["x"], ["y"]), X, {}, 6, "is_test 0"),
        (make_node("SplitToSequence", ["x", "n"], ["y"]), {**X, "n": (INT64, [])}, {}, 13, "a split that depends"),
        (
            make_node("LabelEncoder", ["x"], ["y"], domain=LEARNING, keys_floats=[1.0], values_strings=["a"]),
            X,
            {},
            13,
            "values of text",
        ),
        (
            make_node("TreeEnsemble", ["x"], ["y"], domain=LEARNING, **TREE),
            {"x": (FLOAT, [1, 2])},
            {},
            13,
            "nodes_featureids that are none",
        ),
        (make_node("Expand", ["x", "s"], ["y"]), {**X, "s": (INT64, [4])}, {}, 13, "a constant shape"),
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
