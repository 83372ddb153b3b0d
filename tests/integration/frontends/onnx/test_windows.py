"""Operators on windows and boxes that TVM's importer lacks or computes differently, in one model: ONNX's reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from small_nets import run_network

from tunesmith.errors import UnsupportedOperator
from tunesmith.preparation import Preparation
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import pipeline

pytestmark = pytest.mark.parallel
RNG = np.random.default_rng(3)


def drawn(*shape: int) -> NDArray[np.float32]:
    return RNG.standard_normal(shape).astype(np.float32)


LIMITS = ("most", "overlap", "least")
GIVEN = {
    "x": drawn(2, 4, 7, 6),
    "places": RNG.permutation(2 * 4 * 15 * 12)[:336].reshape(2, 4, 7, 6),
    "rows": drawn(2, 12, 12),
    "block": np.array([3, 2]),
    "boxes": RNG.uniform(0, 4, (2, 30, 4)).astype(np.float32),
    "scores": (RNG.integers(0, 9, (2, 2, 30)) / 8).astype(np.float32),
    "most": np.array([7]),
    "overlap": np.array([0.3], np.float32),
    "least": np.array([0.25], np.float32),
    "weight": drawn(6, 2, 3, 2),
    "moves": 3 * drawn(2, 24, 4, 5),
    "mask": drawn(2, 12, 4, 5),
    "bias": drawn(6),
    # Whole, off the map, without extent, and turned round.
    "regions": np.array([[2, 3, 20, 17], [-9, 1, 60, 50], [5, 5, 5, 5], [9, 9, 4, 3]], np.float32),
    "images": np.array([0, 1, 1, 0]),
}
"""The inputs."""
CONSTANTS = {"image": np.array([6, 7]), "wider": np.array([2, 4, 15, 13])}
REGIONS = {"output_height": 3, "output_width": 2, "spatial_scale": 0.25}
MOVED = {"group": 2, "offset_group": 2, "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]}
NODES = [
    helper.make_node(
        "MaxPool", ["x"], ["largest", "place"], kernel_shape=[3, 2], strides=[2, 2], pads=[0, 1, 0, 1], storage_order=1
    ),
    helper.make_node("MaxUnpool", ["x", "places", "wider"], ["back"], kernel_shape=[3, 2], strides=[2, 2]),
    helper.make_node("Col2Im", ["rows", "image", "block"], ["sums"], strides=[2, 2], pads=[1, 0, 2, 0]),
    helper.make_node("NonMaxSuppression", ["boxes", "scores", *LIMITS], ["kept"]),
    helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["centred"], center_point_box=1),
    helper.make_node("DeformConv", ["x", "weight", "moves", "bias", "mask"], ["moved"], **MOVED),
    helper.make_node("RoiAlign", ["x", "regions", "images"], ["means"], **REGIONS),
    helper.make_node("RoiAlign", ["x", "regions", "images"], ["maxima"], mode="max", sampling_ratio=2, **REGIONS),
    helper.make_node(
        "RoiAlign",
        ["x", "regions", "images"],
        ["usual"],
        coordinate_transformation_mode="output_half_pixel",
        **REGIONS,
    ),
]


def model(expected: Mapping[str, NDArray[Any]] | None = None) -> onnx.ModelProto:
    """With the shapes of its outputs, which limits and windows that are inputs decide; without them, if not given."""
    typed = helper.np_dtype_to_tensor_dtype
    inputs = [helper.make_tensor_value_info(name, typed(each.dtype), each.shape) for name, each in GIVEN.items()]
    stored = [numpy_helper.from_array(each, name) for name, each in CONSTANTS.items()]
    names = [name for node in NODES for name in node.output]
    if expected is None:
        outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
    else:
        outputs = [
            helper.make_tensor_value_info(name, typed(each.dtype), each.shape) for name, each in expected.items()
        ]
    graph = helper.make_graph(NODES, "g", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def test_windows_and_boxes(tmp_path: Path) -> None:
    names = [name for node in NODES for name in node.output]
    expected = dict(zip(names, ReferenceEvaluator(model()).run(None, GIVEN), strict=True))
    onnx.save(model(expected), tmp_path / "m.onnx")
    ours = run_network(
        pipeline.prepare(import_model.import_model(tmp_path / "m.onnx", "onnx"), Preparation()), *GIVEN.values()
    )
    for name, found in zip(names, ours, strict=True):
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_counts_without_a_declared_shape_are_refused(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedOperator, match=r"Col2Im, which makes 'sums',.* block_shape that depends"):
        import_model.import_model(tmp_path / "m.onnx", "onnx")
