"""Operands that have to be known when a model is imported, and what of an ONNX file depends on the model's inputs."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from tunesmith.errors import ModelRejected, UnsupportedOperator
from workers.tvm_backend.frontends.onnx.counts import subgraphs

KNOWN: Mapping[str, Mapping[int, str]] = {
    "Dropout": {2: "training_mode"},
    "Expand": {1: "shape"},
    "OneHot": {1: "depth"},
}
"""Operands by operator and place that TVM reads while it imports a model: others it takes for something else."""
OF_TYPES = frozenset({"OptionalHasElement", "SequenceLength", "Shape", "Size"})
"""Operators whose results are known from the types of their operands: all inputs have fixed shapes."""


def check_operands(graph: onnx.GraphProto) -> None:
    """Refuse operands that depend on the inputs and have to be known, and values of types that are not taken.

    Raises:
        UnsupportedOperator: naming the operator, its place and the operand.
        ModelRejected: naming the input or the weight.
    """
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    for value in inputs:
        kind = value.type.WhichOneof("value")
        element = value.type.tensor_type.elem_type
        if kind != "tensor_type" or element == onnx.TensorProto.STRING:
            what = "text" if kind == "tensor_type" else str(kind).removesuffix("_type")
            raise ModelRejected(
                f"input {value.name!r} is of {what}; export the model with tensors of numbers alone",
                field="file",
                value=value.name,
            )
    _check(graph, varying_values(graph))


def varying_values(graph: onnx.GraphProto) -> set[str]:
    """Names of the values that depend on a model's inputs."""
    weights = {tensor.name for tensor in graph.initializer}
    varying = {value.name for value in graph.input if value.name not in weights}
    _spread(graph, varying)
    return varying


def _spread(graph: onnx.GraphProto, varying: set[str]) -> None:
    """Add what the operators of a graph make of values that vary."""
    for node in graph.node:
        inner = list(subgraphs(node))
        for each in inner:
            varying.update(value.name for value in each.input)
            _spread(each, varying)
        used = {*node.input, *(name for each in inner for one in each.node for name in one.input)}
        if node.op_type not in OF_TYPES and used & varying:
            varying.update(filter(None, node.output))


def _check(graph: onnx.GraphProto, varying: set[str]) -> None:
    for node in graph.node:
        for place, what in KNOWN.get(node.op_type, {}).items():
            if len(node.input) > place and node.input[place] in varying:
                raise UnsupportedOperator(
                    f"{label(node)} has a {what}, {node.input[place]!r}, that depends on the model's inputs; "
                    f"export the model with a constant {what}",
                    field="file",
                    operators={node.op_type: 1},
                )
        for inner in subgraphs(node):
            _check(inner, varying)


def label(node: onnx.NodeProto) -> str:
    """An operator and its place in a graph."""
    return f"{node.op_type} {node.name!r}" if node.name else f"{node.op_type}, which makes {node.output[0]!r},"
