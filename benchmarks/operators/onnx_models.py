"""A single operator as an ONNX model, so that every runtime can run it. Weights are constants, as in a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.models.graph import IR_VERSION, OPSET
from tunesmith.errors import InvalidInput
from tunesmith.operators import OperatorSpec, parse_operator

if TYPE_CHECKING:
    import onnx

CONSTANT = frozenset({"weight", "gamma", "beta"})
"""Tensors of a spec that are weights."""


def _convolution(spec: OperatorSpec) -> tuple[str, dict[str, Any]]:
    groups = spec.dims[1] if spec.kind == "depthwise" else 1
    return "Conv", {
        "strides": [spec.stride] * 2,
        "pads": [spec.padding] * 4,
        "group": groups,
        "kernel_shape": list(spec.kernel),
    }


NODES: Mapping[str, Callable[[OperatorSpec], tuple[str, dict[str, Any]]]] = {
    "gemm": lambda spec: ("MatMul", {}),
    "bmm": lambda spec: ("MatMul", {}),
    "dense": lambda spec: ("Gemm", {"transB": 1}),
    "conv2d": _convolution,
    "depthwise": _convolution,
    "softmax": lambda spec: ("Softmax", {"axis": -1}),
    "layernorm": lambda spec: ("LayerNormalization", {"axis": -1}),
}
"""ONNX's operator and its attributes, by kind of operator spec."""


def write_operator(text: str, path: Path) -> Path:
    """Write the model of an operator spec with random weights to ``path``.

    Raises:
        InvalidOperator: the spec does not parse.
        InvalidInput: it is not of float32, which some runtimes take alone.
    """
    spec = parse_operator(text)
    if spec.dtype != "float32":
        raise InvalidInput("runtimes are compared in float32", field="operator", value=text)
    import onnx

    onnx.save(operator_model(spec, 0), path)
    return path


def operator_model(spec: OperatorSpec, seed: int) -> onnx.ModelProto:
    """The model: one node."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array((rng.standard_normal(t.shape) * _scale(t.shape)).astype(np.float32), t.name)
        for t in spec.inputs
        if t.name in CONSTANT
    ]
    inputs = [
        helper.make_tensor_value_info(t.name, TensorProto.FLOAT, list(t.shape))
        for t in spec.inputs
        if t.name not in CONSTANT
    ]
    output = helper.make_tensor_value_info(spec.output.name, TensorProto.FLOAT, list(spec.output.shape))
    kind, attributes = NODES[spec.kind](spec)
    node = helper.make_node(kind, [t.name for t in spec.inputs], [spec.output.name], **attributes)
    graph = helper.make_graph([node], spec.kind, inputs, [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _scale(shape: tuple[int, ...]) -> float:
    """Keeps the output's size that of the input."""
    return float(1.0 / np.sqrt(np.prod(shape[1:]))) if len(shape) > 1 else 1.0
