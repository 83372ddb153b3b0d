"""Numbers of fewer than eight bits, kept one to a byte, or to a float16.

ONNX's types ``INT4``, ``UINT4``, ``INT2``, ``UINT2`` and ``FLOAT4E2M1`` put several numbers into a byte. Weights of
these types are unpacked; inputs and outputs are int8, uint8 or float16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import TensorProto, numpy_helper

from workers.tvm_backend.frontends.onnx.counts import subgraphs

KEPT: Mapping[str, str] = {
    "int4": "int8",
    "int2": "int8",
    "uint4": "uint8",
    "uint2": "uint8",
    "float4_e2m1fn": "float16",
}
"""The type that numbers are kept in, by the name of their own."""
WIDE: Mapping[int, int] = {
    TensorProto.INT4: TensorProto.INT8,
    TensorProto.INT2: TensorProto.INT8,
    TensorProto.UINT4: TensorProto.UINT8,
    TensorProto.UINT2: TensorProto.UINT8,
    TensorProto.FLOAT4E2M1: TensorProto.FLOAT16,
}
"""The same by ONNX's numbers of the types."""


def unpack(graph: onnx.GraphProto) -> None:
    """Keep weights, inputs and outputs of fewer than eight bits in wider types.

    A cast or a quantisation to such a type still says so: it wraps or saturates as the type does.
    """
    kinds: dict[str, int] = {}
    for tensor in graph.initializer:
        _unpack_tensor(tensor, kinds)
    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.tensor_type
        if kind.elem_type in WIDE:
            kinds[value.name] = kind.elem_type
            kind.elem_type = WIDE[kind.elem_type]
    _state_kinds(graph.node, kinds)
    for node in graph.node:
        for inner in subgraphs(node):
            unpack(inner)


def _unpack_tensor(tensor: TensorProto, kinds: dict[str, int]) -> None:
    if tensor.data_type in WIDE:
        kinds[tensor.name] = tensor.data_type
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array(array.astype(KEPT[str(array.dtype)]), tensor.name))


def _state_kinds(nodes: Iterable[onnx.NodeProto], kinds: dict[str, int]) -> None:
    """Write types that an operator takes from an operand as attributes."""
    for node in nodes:
        for each in node.attribute:
            if each.type == onnx.AttributeProto.TENSOR:
                own: dict[str, int] = {}
                _unpack_tensor(each.t, own)
                kinds.update((node.output[0], kind) for kind in own.values())
        if node.op_type == "CastLike" and node.input[1] in kinds:
            node.op_type = "Cast"
            node.attribute.append(onnx.helper.make_attribute("to", kinds[node.input[1]]))
            del node.input[1:]
        typed = any(each.name == "output_dtype" for each in node.attribute)
        if node.op_type == "QuantizeLinear" and len(node.input) > 2 and node.input[2] in kinds and not typed:
            node.attribute.append(onnx.helper.make_attribute("output_dtype", kinds[node.input[2]]))
