"""Operands that have to be known when a model is imported, and what of an ONNX file depends on the model's inputs."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from tunesmith.errors import ModelRejected, UnsupportedOperator
from workers.tvm_backend.frontends.onnx.counts import subgraphs

KNOWN: Mapping[str, Mapping[int, str]] = {
    "Dropout": {2: "training_mode"},
    "Expand": {1: "shape"},
    "NonMaxSuppression": {2: "max_output_boxes_per_class", 3: "iou_threshold", 4: "score_threshold"},
    "OneHot": {1: "depth"},
    "Range": {0: "start", 1: "limit", 2: "delta"},
}
"""Operands by operator and place that TVM reads while it imports a model: others it takes for something else."""
PACKED = frozenset(kind for name, kind in onnx.TensorProto.DataType.items() if name.endswith(("INT4", "INT2", "E2M1")))
"""Types of which several numbers share a byte."""
FLOAT8 = frozenset(kind for name, kind in onnx.TensorProto.DataType.items() if name.startswith("FLOAT8"))
"""Types that a ``Cast`` of ONNX saturates in, and TVM's does not."""
OF_TYPES = frozenset({"Shape", "Size"})
"""Operators whose results are known from the types of their operands: all inputs have fixed shapes."""


def check_operands(graph: onnx.GraphProto) -> None:
    """Refuse operands that depend on the inputs and have to be known, and values of types that are not taken.

    Raises:
        UnsupportedOperator: naming the operator, its place and the operand.
        ModelRejected: naming the input or the weight.
    """
    for tensor in graph.initializer:
        if tensor.data_type in PACKED:
            raise ModelRejected(
                f"weight {tensor.name!r} has numbers of fewer than eight bits; "
                "export the model with weights of eight or more",
                field="file",
                value=tensor.name,
            )
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    for value in inputs:
        kind = value.type.WhichOneof("value")
        element = value.type.tensor_type.elem_type
        if kind != "tensor_type" or element in PACKED or element == onnx.TensorProto.STRING:
            what = "text" if element == onnx.TensorProto.STRING else "numbers of fewer than eight bits"
            what = what if kind == "tensor_type" else str(kind).removesuffix("_type")
            raise ModelRejected(
                f"input {value.name!r} is of {what}; export the model with tensors of numbers alone",
                field="file",
                value=value.name,
            )
    _check(graph, {value.name for value in inputs})


def _check(graph: onnx.GraphProto, varying: set[str]) -> None:
    """Check a graph's operators in order; ``varying``, the values that depend on inputs, grows by what they make."""
    for node in graph.node:
        for place, what in KNOWN.get(node.op_type, {}).items():
            if len(node.input) > place and node.input[place] in varying:
                raise UnsupportedOperator(
                    f"{label(node)} has a {what}, {node.input[place]!r}, that depends on the model's inputs; "
                    f"export the model with a constant {what}",
                    field="file",
                    operators={node.op_type: 1},
                )
        made = next((each.i for each in node.attribute if each.name == "to"), 0) if node.op_type == "Cast" else 0
        if made in PACKED | FLOAT8:
            raise UnsupportedOperator(
                f"{label(node)} makes numbers of type {onnx.TensorProto.DataType.Name(made)}; "
                "export the model without it",
                field="file",
                operators={"Cast": 1},
            )
        inner = list(subgraphs(node))
        for each in inner:
            _check(each, varying | {value.name for value in each.input})
        used = {*node.input, *(name for each in inner for one in each.node for name in one.input)}
        if node.op_type not in OF_TYPES and used & varying:
            varying.update(filter(None, node.output))


def label(node: onnx.NodeProto) -> str:
    """An operator and its place in a graph."""
    return f"{node.op_type} {node.name!r}" if node.name else f"{node.op_type}, which makes {node.output[0]!r},"
