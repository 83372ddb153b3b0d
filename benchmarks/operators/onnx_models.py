"""A single operator as an ONNX model, so that every runtime can run it. Weights are constants, as in a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.models.graph import Graph
from tunesmith.errors import InvalidInput
from tunesmith.operators import OperatorSpec, parse_operator


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
    """Write the model of an operator spec with random weights to ``path``; a precision is not part of a file.

    Raises:
        InvalidOperator: the spec does not parse.
        InvalidInput: its tensors are not of float32, which some runtimes take alone.
    """
    spec = parse_operator(text)
    if spec.dtype != "float32":
        raise InvalidInput("runtimes take tensors of float32: use float32 or bf16", field="operator", value=text)
    import onnx

    graph = Graph(spec.kind, seed=0)
    names = [
        graph.weight(*t.shape, fan_in=math.prod(t.shape[1:])) if t.name in spec.weights else t.name for t in spec.inputs
    ]
    kind, attributes = NODES[spec.kind](spec)
    output = graph.node(kind, *names, **attributes)
    sources = [(t.name, t.shape) for t in spec.inputs if t.name not in spec.weights]
    onnx.save(graph.model(*sources, (output, spec.output.shape)), path)
    return path
