"""Operators on quantised tensors: what onnxruntime computes, but for a step where a rounding falls the other way.

The int8 weights are of seven bits (``w``, ``v``, ``m``, ``t``). On an x64 processor without VNNI onnxruntime adds two
products of uint8 and int8 in 16 bits, which saturate from 2 * 255 * 65 on: there it is onnxruntime that is wrong about
weights of eight bits, so those are compared with numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_nets import Array, calls, run_network

from tunesmith.errors import UnsupportedOperator
from tunesmith.preparation import PLAIN, Preparation
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import pipeline

pytestmark = pytest.mark.parallel
BLOCKED = Preparation(blocked=True)
MAPS, ROWS = (1, 4, 9, 11), (3, 11)
STEP = 0.05
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
RNG = np.random.default_rng(0)
CONSTANTS: dict[str, Array] = {
    "xs": np.array(0.02, np.float32),
    "xz": np.array(120, np.uint8),
    "ys": np.array(STEP, np.float32),
    "yz": np.array(100, np.uint8),
    "zs": np.array(1 / 256, np.float32),
    "zz": np.array(0, np.uint8),
    "w": RNG.integers(-64, 65, (6, 4, 3, 3)).astype(np.int8),
    "ws": np.array(0.006, np.float32),
    "wv": np.array([0.003], np.float32),
    "xr": np.array([120, 7, 255], np.uint8),
    "wz": np.array(0, np.int8),
    "wc": RNG.uniform(0.002, 0.008, 6).astype(np.float32),
    "wo": np.zeros(6, np.int8),
    "b": RNG.integers(-9000, 9000, 6).astype(np.int32),
    "u": RNG.integers(0, 256, (16, 4, 3, 3)).astype(np.uint8),
    "uz": np.array(131, np.uint8),
    "v": RNG.integers(-64, 65, (16, 16, 3, 3)).astype(np.int8),
    "m": RNG.integers(-64, 65, (11, 6)).astype(np.int8),
    "t": RNG.integers(-64, 65, (6, 11)).astype(np.int8),
    "all": RNG.integers(-128, 128, (11, 6)).astype(np.int8),
    "k": RNG.integers(0, 256, MAPS).astype(np.uint8),
    "f": RNG.standard_normal(6).astype(np.float32),
}
OWN = "com.microsoft"
Tail = tuple[str, list[str], dict[str, Any]]
DEQUANTISED: Tail = ("DequantizeLinear", ["r", "ys", "yz"], {})
CAST: Tail = ("Cast", ["r"], {"to": TensorProto.FLOAT})
AS_IT_IS: Tail = ("Identity", ["r"], {})


def quantised(path: Path, nodes: Sequence[onnx.NodeProto], shape: Sequence[int], tail: Tail = DEQUANTISED) -> Path:
    """A model that quantises its input to ``q``, runs ``nodes`` and makes floats of what they call ``r``."""
    name, inputs, attrs = tail
    first = helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"])
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [first, *nodes, helper.make_node(name, inputs, ["y"], **attrs)],
        "g",
        [value("x", TensorProto.FLOAT, list(shape))],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, key) for key, array in CONSTANTS.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=OPSETS, ir_version=8), path)
    return path


def agree(path: Path, shape: Sequence[int], preparation: Preparation, step: float) -> pipeline.Prepared:
    """The outputs of the prepared model and onnxruntime's are the same, but for few that are a step apart."""
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    (theirs,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    made = pipeline.prepare(import_model.import_model(path, "onnx"), preparation)
    (ours,) = run_network(made, x)
    assert ours.shape == theirs.shape
    apart = np.abs(ours - theirs)
    assert apart.max() <= 1.01 * step
    assert (apart > 0.01 * step).mean() < 0.02, "more than a rounding here and there"
    assert np.ptp(theirs) > 10 * step
    return made


@pytest.mark.parametrize("preparation", [PLAIN, BLOCKED], ids=["plain", "blocked"])
@pytest.mark.parametrize(
    ("name", "inputs", "attrs"),
    [
        ("QLinearConv", "q xs xz w ws wz ys yz b", {"pads": [1, 1, 1, 1]}),
        ("QLinearConv", "q xs xz w wc wo ys yz", {"strides": [2, 2]}),
        ("QLinearConv", "q xs xz u wv uz ys yz", {"pads": [0, 1, 1, 0]}),
        ("QLinearMatMul", "q xs xz m ws wz ys yz", {}),
        ("QLinearMatMul", "q xs xz m wc wo ys yz", {}),
        ("QLinearAdd", "q xs xz k xs xz ys yz", {}),
        ("QLinearMul", "q xs xz q xs xz ys yz", {}),
        ("QLinearLeakyRelu", "q xs xz ys yz", {"alpha": 0.1}),
        ("QLinearAveragePool", "q xs xz ys yz", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 0], "strides": [2, 1]}),
        ("QLinearConcat", "ys yz q xs xz k xs xz", {"axis": 1}),
    ],
)
def test_operators_on_maps(
    tmp_path: Path, name: str, inputs: str, attrs: dict[str, Any], preparation: Preparation
) -> None:
    domain = "" if name in ("QLinearConv", "QLinearMatMul") else OWN
    node = helper.make_node(name, inputs.split(), ["r"], domain=domain, **attrs)
    agree(quantised(tmp_path / "m.onnx", [node], MAPS), MAPS, preparation, STEP)


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "shape", "tail", "step"),
    [
        ("QGemm", "q xs xz m wc wo b ys yz", {}, ROWS, DEQUANTISED, STEP),
        ("QGemm", "q xs xz t ws wz b", {"transB": 1, "alpha": 0.5}, ROWS, AS_IT_IS, 1e-3),
        ("QLinearSigmoid", "q xs xz zs zz", {}, MAPS, ("DequantizeLinear", ["r", "zs", "zz"], {}), 1 / 256),
        (
            "QLinearGlobalAveragePool",
            "q xs xz zs zz",
            {"channels_last": 0},
            (2, 4, 3, 2),
            ("DequantizeLinear", ["r", "zs", "zz"], {}),
            1 / 256,
        ),
        ("MatMulIntegerToFloat", "q m xs wc xz wo f", {}, ROWS, AS_IT_IS, 1e-3),
        ("DynamicQuantizeMatMul", "x m ws wz f", {}, ROWS, AS_IT_IS, 0.02),
    ],
)
def test_operators_of_onnxruntime(
    tmp_path: Path, name: str, inputs: str, attrs: dict[str, Any], shape: tuple[int, ...], tail: Tail, step: float
) -> None:
    node = helper.make_node(name, inputs.split(), ["r"], domain=OWN, **attrs)
    agree(quantised(tmp_path / "m.onnx", [node], shape, tail), shape, BLOCKED, step)


@pytest.mark.parametrize(
    ("name", "inputs", "shape", "attrs"),
    [
        *(("ConvInteger", inputs, MAPS, {"pads": [1, 1, 1, 1]}) for inputs in ("q w xz wz", "q w", "q u xz uz")),
        *(("MatMulInteger", inputs, ROWS, {}) for inputs in ("q m xz wz", "q m xz wo", "q m")),
    ],
)
def test_products_of_whole_numbers(
    tmp_path: Path, name: str, inputs: str, shape: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    node = helper.make_node(name, inputs.split(), ["r"], **attrs)
    agree(quantised(tmp_path / "m.onnx", [node], shape, CAST), shape, BLOCKED, 0.0)


@pytest.mark.parametrize("preparation", [PLAIN, BLOCKED], ids=["plain", "blocked"])
def test_products_of_eight_bits_are_exact(tmp_path: Path, preparation: Preparation) -> None:
    node = helper.make_node("MatMulInteger", ["q", "all", "xz", "wz"], ["r"])
    path = quantised(tmp_path / "m.onnx", [node], ROWS, CAST)
    x = np.full(ROWS, 10, np.float32)  # beyond the range of q: 255 in the first row, 0 in the last
    x[1:] *= np.array([[1 / 7], [-1]], np.float32)
    (ours,) = run_network(pipeline.prepare(import_model.import_model(path, "onnx"), preparation), x)
    q = np.clip(np.rint(x / CONSTANTS["xs"]) + 120, 0, 255).astype(np.int32)
    np.testing.assert_array_equal(ours, (q - 120) @ CONSTANTS["all"].astype(np.int32))


def test_a_zero_point_for_each_row(tmp_path: Path) -> None:
    node, x = helper.make_node("MatMulInteger", ["q", "m", "xr"], ["r"]), np.zeros(ROWS, np.float32)
    path = quantised(tmp_path / "m.onnx", [node], ROWS, CAST)
    (ours,) = run_network(pipeline.prepare(import_model.import_model(path, "onnx"), BLOCKED), x)
    rows = np.int32(CONSTANTS["xz"]) - CONSTANTS["xr"].astype(np.int32)
    np.testing.assert_array_equal(ours, rows[:, None] * CONSTANTS["m"].astype(np.int32).sum(axis=0))


def test_a_tensor_of_zeros_is_quantised(tmp_path: Path) -> None:
    node = helper.make_node("DynamicQuantizeMatMul", ["x", "m", "ws", "wz", "f"], ["r"], domain=OWN)
    path = quantised(tmp_path / "m.onnx", [node], ROWS, AS_IT_IS)
    (ours,) = run_network(
        pipeline.prepare(import_model.import_model(path, "onnx"), BLOCKED), np.zeros(ROWS, np.float32)
    )
    np.testing.assert_array_equal(ours, np.broadcast_to(CONSTANTS["f"], ours.shape))


def test_a_quantised_network_stays_in_blocks(tmp_path: Path) -> None:
    """Quantising, a pool of whole numbers and dequantising are no reason to lay a map out anew."""
    nodes = [
        helper.make_node("QLinearConv", ["q", "xs", "xz", "u", "wv", "uz", "ys", "yz"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["p"], kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("QLinearConv", ["p", "ys", "yz", "v", "ws", "wz", "ys", "yz"], ["r"], pads=[1, 1, 1, 1]),
    ]
    found = calls(agree(quantised(tmp_path / "m.onnx", nodes, MAPS), MAPS, BLOCKED, STEP).module)
    assert sum(count for name, count in found.items() if "conv2d_blocked" in name) == 2, found
    assert sum(name.count("to_plain") for name in found) == 1, found
    assert not any("quantize" in name and "conv2d" not in name and "to_" not in name for name in found), found


def test_a_constant_without_axes_is_dequantised(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["uz", "ys", "xz"], ["f0"]),
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["f1"]),
        helper.make_node("Mul", ["f0", "f1"], ["f2"]),
        helper.make_node("QuantizeLinear", ["f2", "ys", "yz"], ["r"]),
    ]
    agree(quantised(tmp_path / "m.onnx", nodes, MAPS), MAPS, BLOCKED, STEP)


def test_another_scale_is_another_number(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "ys", "xz"], ["f0"]),
        helper.make_node("QuantizeLinear", ["f0", "ys", "xz"], ["r"]),
    ]
    agree(quantised(tmp_path / "m.onnx", nodes, MAPS), MAPS, BLOCKED, STEP)


def test_halves_are_rounded_to_even(tmp_path: Path) -> None:
    value, halves = helper.make_tensor_value_info, np.arange(-3.5, 4.0, 1.0, np.float32)
    scale = {"s": np.array(1, np.float32), "z": np.array(0, np.int8)}
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("Round", ["x"], ["n"]),
            helper.make_node("Concat", ["d", "n"], ["y"], axis=0),
        ],
        "g",
        [value("x", TensorProto.FLOAT, [8])],
        [value("y", TensorProto.FLOAT, [16])],
        [numpy_helper.from_array(each, key) for key, each in scale.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=OPSETS[:1], ir_version=8), tmp_path / "m.onnx")
    for preparation in (PLAIN, BLOCKED):
        (ours,) = run_network(
            pipeline.prepare(import_model.import_model(tmp_path / "m.onnx", "onnx"), preparation), halves
        )
        np.testing.assert_array_equal(ours, np.tile(np.round(halves), 2))


@pytest.mark.parametrize(
    ("inputs", "name", "attrs", "message"),
    [
        ("q xs xz ys", "QLinearSigmoid", {}, "a result without a zero point"),
        ("q e xz ys yz", "QLinearSigmoid", {}, r"a scale or zero point that is computed \(e\)"),
        ("q xs xz ys yz", "QLinearGlobalAveragePool", {"channels_last": 1}, "channels_last"),
        ("q wc xz ys yz", "QLinearSigmoid", {}, "a scale for each channel of an operand that is no weight"),
    ],
)
def test_what_is_not_supported_is_named(
    tmp_path: Path, inputs: str, name: str, attrs: dict[str, Any], message: str
) -> None:
    nodes = [helper.make_node("Exp", ["xs"], ["e"]), helper.make_node(name, inputs.split(), ["r"], domain=OWN, **attrs)]
    with pytest.raises(UnsupportedOperator, match=f"{name} is not supported with {message}"):
        import_model.import_model(quantised(tmp_path / "m.onnx", nodes, MAPS), "onnx")
