"""onnxruntime's own operators: what it computes, one by one and in the models that it optimises and saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numerics
import numpy as np
import onnx
import onnxruntime
import pytest
from one_operator import Array, by_tvm
from onnx import TensorProto, helper, numpy_helper
from small_nets import Net, calls, run_network

from benchmarks.models import encoder
from tunesmith.errors import UnsupportedOperator
from tunesmith.preparation import Preparation
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import pipeline

pytestmark = pytest.mark.parallel
BLOCKED = Preparation(blocked=True)
RNG = np.random.default_rng(0)
ROWS, MAPS = (2, 5, 24), (1, 4, 7, 6)


def numbers(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


CONSTANTS: dict[str, Array] = {
    "skip": numbers(*ROWS),
    "gamma": numbers(24),
    "beta": numbers(24),
    "bias": numbers(24),
    "m": numbers(2, 24, 9),
    "mt": numbers(2, 9, 24),
    "at": numbers(2, 5, 7),
    "w": numbers(6, 4, 3, 3),
    "wb": numbers(6),
    "rest": numbers(1, 6, 7, 6),
    "g": numbers(24, 8),
    "gb": numbers(8),
    "qkv": numbers(24, 72) / 4,
    "qkvb": numbers(72),
    "narrow": numbers(24, 56) / 4,
    "narrowb": numbers(56),
    "keys": numbers(2, 7, 24),
    "values": numbers(2, 7, 24),
    "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
    "bias3": numbers(72),
    "masks": (RNG.random((2, 5, 5)) < 0.7).astype(np.int32) | np.eye(5, dtype=np.int32),
    "kmask": np.array([[1] * 7, [1, 0, 1, 1, 0, 1, 1]], np.int32),
    "added": numbers(1, 4, 5, 5),
    "wide": numbers(2, 4, 5, 7),
    "kept": RNG.random((5, 7)) < 0.7,
    "few": numbers(2, 7, 8),
    "headed": numbers(2, 3, 5, 8),
    "w4": numbers(4),
    "b4": numbers(4),
}
OWN = "com.microsoft"
Case = tuple[str, str, str, dict[str, Any], tuple[int, ...]]
CASES: dict[str, Case] = {
    "skip": ("SkipLayerNormalization", "x skip gamma beta bias", "y", {"epsilon": 1e-5}, ROWS),
    "skip-plain": ("SkipLayerNormalization", "x skip gamma", "y", {}, ROWS),
    "skip-sum": ("SkipLayerNormalization", "x skip gamma beta", "o   y", {}, ROWS),
    "root": ("SkipSimplifiedLayerNormalization", "x skip gamma", "y", {"epsilon": 1e-5}, ROWS),
    "root-sum": ("SkipSimplifiedLayerNormalization", "x skip gamma bias", "o   y", {}, ROWS),
    "gelu": ("Gelu", "x", "y", {}, ROWS),
    "quick": ("QuickGelu", "x", "y", {"alpha": 1.3}, ROWS),
    "bias-gelu": ("BiasGelu", "x bias", "y", {}, ROWS),
    "fast": ("FastGelu", "x bias", "y", {}, ROWS),
    "fast-plain": ("FastGelu", "x", "y", {}, ROWS),
    "product": ("FusedMatMul", "x m", "y", {"alpha": 0.3}, ROWS),
    "right": ("FusedMatMul", "x mt", "y", {"transB": 1}, ROWS),
    "left": ("FusedMatMul", "x at", "y", {"transA": 1, "alpha": 2.0}, ROWS),
    "relu": ("FusedConv", "x w wb", "y", {"activation": "Relu", "pads": [1, 1, 1, 1]}, MAPS),
    "sum": ("FusedConv", "x w wb rest", "y", {"activation": "Relu", "pads": [1, 1, 1, 1]}, MAPS),
    "clip": ("FusedConv", "x w", "y", {"activation": "Clip", "activation_params": [-0.5, 2.0]}, MAPS),
    "leaky": ("FusedConv", "x w", "y", {"activation": "LeakyRelu", "activation_params": [0.2]}, MAPS),
    "sigmoid": ("FusedConv", "x w wb", "y", {"activation": "Sigmoid"}, MAPS),
    "hard": ("FusedConv", "x w", "y", {"activation": "HardSigmoid", "activation_params": [0.1, 0.4]}, MAPS),
    "gemm": ("FusedGemm", "x g gb", "y", {"activation": "LeakyRelu", "activation_alpha": 0.3}, (5, 24)),
    "attention": ("Attention", "x qkv qkvb", "y", {"num_heads": 4}, ROWS),
    "masked": ("Attention", "x qkv qkvb mask", "y", {"num_heads": 4}, ROWS),
    "masks": ("Attention", "x qkv qkvb masks  added", "y", {"num_heads": 4, "scale": 0.3}, ROWS),
    "causal": ("Attention", "x qkv qkvb", "y", {"num_heads": 2, "unidirectional": 1}, ROWS),
    "sizes": ("Attention", "x narrow narrowb", "y", {"num_heads": 4, "qkv_hidden_sizes": [16, 16, 24]}, ROWS),
    "heads": ("MultiHeadAttention", "x keys values bias3 kmask wide", "y", {"num_heads": 4}, ROWS),
    "heads-plain": ("MultiHeadAttention", "x keys values", "y", {"num_heads": 3, "scale": 0.5}, ROWS),
}


def written(path: Path, case: Case, domain: str = OWN, opset: int = 17) -> Path:
    """A model of one operator, and another one that wants to know the shape of its result."""
    name, inputs, outputs, attrs, shape = case
    node = helper.make_node(name, inputs.split(" "), outputs.replace("y", "r").split(" "), domain=domain, **attrs)
    value = helper.make_tensor_value_info
    nodes = [node, helper.make_node("Flatten", ["r"], ["y"])]
    given = [numpy_helper.from_array(array, key) for key, array in CONSTANTS.items() if key in node.input]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, None)], given
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(OWN, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def agree(path: Path, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (theirs,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    ours = by_tvm(import_model.import_model(path, "onnx"), x)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_operators_agree_with_onnxruntime(tmp_path: Path, name: str) -> None:
    agree(written(tmp_path / "m.onnx", CASES[name]), CASES[name][4])


def test_a_norm_that_onnxruntime_has_among_onnx_s(tmp_path: Path) -> None:
    case = ("SimplifiedLayerNormalization", "x gamma", "y", {"epsilon": 1e-5}, ROWS)
    agree(written(tmp_path / "m.onnx", case, domain=""), ROWS)


def test_what_follows_a_norm_of_each_channel_knows_its_shape(tmp_path: Path) -> None:
    case = ("InstanceNormalization", "x w4 b4", "y", {}, MAPS)
    agree(written(tmp_path / "m.onnx", case, domain=""), MAPS)


@pytest.mark.parametrize("outputs", ["o y", "o  y"], ids=["mean", "deviation"])
def test_the_other_results_of_a_layer_s_normalisation(tmp_path: Path, outputs: str) -> None:
    agree(written(tmp_path / "m.onnx", ("LayerNormalization", "x gamma", outputs, {}, ROWS), domain=""), ROWS)


@pytest.mark.parametrize(
    ("inputs", "attrs"),
    [
        ("x keys values", {"q_num_heads": 4, "kv_num_heads": 4}),
        ("x keys values wide", {"q_num_heads": 4, "kv_num_heads": 4}),
        ("x keys values kept", {"q_num_heads": 4, "kv_num_heads": 4, "scale": 0.4}),
        ("x skip skip", {"q_num_heads": 3, "kv_num_heads": 3, "is_causal": 1}),
        ("x few few", {"q_num_heads": 6, "kv_num_heads": 2}),
    ],
    ids=["plain", "added", "mask", "causal", "shared"],
)
def test_onnx_s_attention_is_not_onnxruntime_s(tmp_path: Path, inputs: str, attrs: dict[str, Any]) -> None:
    agree(written(tmp_path / "m.onnx", ("Attention", inputs, "y", attrs, ROWS), domain="", opset=23), ROWS)


def test_attention_of_operands_with_heads(tmp_path: Path) -> None:
    shape = (2, 3, 5, 8)
    case = ("Attention", "x headed headed", "y", {"is_causal": 1}, shape)
    agree(written(tmp_path / "m.onnx", case, domain="", opset=23), shape)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (("FusedConv", "x w", "y", {"activation": "Selu"}, MAPS), "Selu"),
        (("FusedMatMul", "x m", "y", {"transBatchA": 1}, ROWS), "transBatchA"),
        (("MultiHeadAttention", "x", "y", {"num_heads": 4}, (2, 5, 4, 3, 6)), "packed"),
    ],
    ids=["activation", "batches", "packed"],
)
def test_what_is_not_known_is_refused_by_name(tmp_path: Path, case: Case, says: str) -> None:
    with pytest.raises(UnsupportedOperator, match=says) as refusal:
        import_model.import_model(written(tmp_path / "m.onnx", case), "onnx")
    assert list(refusal.value.extra["operators"]) == [case[0]]


def optimised(path: Path, out: Path) -> onnx.ModelProto:
    """What onnxruntime makes of a model for any processor."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.log_severity_level = str(out), 3
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return onnx.load(out)


def convolutions(path: Path) -> None:
    net = Net(1, 8, 9, 10)
    first = net.op("Relu", net.norm(net.conv("x", 16)))
    second = net.conv(net.op("Relu", net.depthwise(first, strides=[1, 1])), 16)
    net.save(path, net.conv(net.op("Relu", net.op("Add", second, first)), 12, 1))


@pytest.mark.parametrize(
    ("name", "fused"),
    [
        ("convolutions", {"FusedConv"}),
        ("encoder", {"SkipLayerNormalization", "FusedMatMul"}),
    ],
)
def test_a_model_that_onnxruntime_optimised_is_the_model(tmp_path: Path, name: str, fused: set[str]) -> None:
    original, path = tmp_path / "original.onnx", tmp_path / "optimised.onnx"
    if name == "encoder":
        onnx.save(encoder.build(0, encoder.Sizes(1, 16, 32, 4, 64)), original)
    else:
        convolutions(original)
    assert fused <= {node.op_type for node in optimised(original, path).graph.node if node.domain == OWN}
    one, other = (numerics.random_inputs(original, seed) for seed in (0, 1))
    theirs, elsewhere = numerics.references(original, one, other)
    made, plain = (pipeline.prepare(import_model.import_model(each, "onnx"), BLOCKED) for each in (path, original))
    assert calls(made.module).total() <= calls(plain.module).total()
    (ours,) = run_network(made, *one.values())
    assert numerics.error(ours, theirs, elsewhere) < 1e-4
