"""ONNX's and onnxruntime's operators on quantised tensors, as the operators on float32 that they stand for.

They are what ``onnxruntime.quantization`` writes in its format ``QOperator``, and what its dynamic quantisation makes.
A sum of products of whole numbers is made in float32 like any other: exact to 2^24, rounded to a part of 10^7 beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from workers.tvm_backend.frontends.refusals import unsupported

FLOATS = {
    "QLinearConv": "Conv",
    "QLinearMatMul": "MatMul",
    "QLinearAdd": "Add",
    "QLinearMul": "Mul",
    "QLinearSigmoid": "Sigmoid",
    "QLinearLeakyRelu": "LeakyRelu",
    "QLinearAveragePool": "AveragePool",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
    "QLinearConcat": "Concat",
    "QGemm": "Gemm",
}
"""The operator on float32, by the one on quantised tensors."""
Scale = NDArray[np.float32]
UNKNOWN: Scale = np.array(np.nan, np.float32)
"""A scale that depends on the model's inputs."""


class _Writer:
    """What takes the place of a graph's nodes."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.single = {
            value.name
            for value in (*graph.input, *graph.value_info)
            if value.type.tensor_type.HasField("shape")
            and all(dim.dim_value == 1 for dim in value.type.tensor_type.shape.dim)
        }
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.only_floats = _only_cast_to_float(graph)
        self.in_floats: set[str] = set()
        self.ranks = {
            value.name: len(value.type.tensor_type.shape.dim)
            for value in (*graph.input, *graph.value_info)
            if value.type.tensor_type.HasField("shape")
        }
        for node in graph.node:
            for attribute in node.attribute:
                if node.op_type == "Constant" and attribute.name == "value":
                    self.constants[node.output[0]] = attribute.t

    def emit(self, operator: str, *inputs: str, result: str = "", **attrs: Any) -> str:
        """The name of a new operator's result: ``result``, or one of its own."""
        name = result or f"{self.graph.name}__quantised_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=f"{name}__{operator}", **attrs))
        return name

    def constant(self, array: NDArray[Any]) -> str:
        name = f"{self.graph.name}__quantised_constant_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def value(self, node: onnx.NodeProto, name: str) -> NDArray[Any]:
        """A scale or zero point; 0 for one that is left out.

        Raises:
            UnsupportedOperator: it is computed.
        """
        if name and name not in self.constants:
            raise unsupported(node.op_type, f"a scale or zero point that is computed ({name})")
        return numpy_helper.to_array(self.constants[name]) if name else np.zeros((), np.uint8)

    def is_single(self, name: str) -> bool:
        """Whether a value has one element."""
        constant = self.constants.get(name)
        return name in self.single if constant is None else int(np.prod(constant.dims)) == 1

    def scalars(self, names: Sequence[str]) -> list[str]:
        """A scale in float32, and a zero point if there is one, each of one element, without their axes."""
        wide = [self.emit("Cast", names[0], to=TensorProto.FLOAT), *filter(None, names[1:])]
        return [self.emit("Reshape", name, self.constant(np.zeros(0, np.int64))) for name in wide]

    def whole(self, x: str, zero: str) -> str:
        """``x`` less its zero point, in float32."""
        x = self.emit("Cast", x, to=TensorProto.FLOAT)
        return self.emit("Sub", x, self.emit("Cast", zero, to=TensorProto.FLOAT)) if zero else x

    def real(self, node: onnx.NodeProto, at: int, axis: int = -1) -> tuple[str, Scale]:
        """The numbers that an operand stands for, and its scale.

        Args:
            node: the operator.
            at: the operand's place, behind which its scale and its zero point stand.
            axis: axis of the operand along which each channel may have a scale; -1 if there may be none.
        """
        x, *names = (node.input[place] if place < len(node.input) else "" for place in range(at, at + 3))
        if any(name in self.single and name not in self.constants for name in names):
            return self.emit("DequantizeLinear", x, *self.scalars(names)), UNKNOWN
        scale, zero = (self.value(node, name) for name in names)
        if scale.size == zero.size == 1:
            return self.emit(
                "DequantizeLinear",
                x,
                self.constant(scale.reshape(())),
                *([self.constant(zero.reshape(()))] if names[1] else []),
            ), scale.reshape(())
        if axis < 0:
            raise unsupported(node.op_type, "a scale for each channel of an operand that is no weight")
        scale, zero = (np.broadcast_to(each.reshape(-1), max(scale.size, zero.size)) for each in (scale, zero))
        parameters = [self.constant(scale), *([self.constant(zero)] if names[1] else [])]
        return self.emit("DequantizeLinear", x, *parameters, axis=axis), scale

    def quantised(self, node: onnx.NodeProto, x: str, at: int) -> None:
        """The operator's result; its scale and its zero point stand at ``at``."""
        names = [name for name in node.input[at : at + 2] if name]
        if len(names) < 2:  # it says which type the result has
            raise unsupported(node.op_type, "a result without a zero point")
        if any(name in self.single and name not in self.constants for name in names):
            self.emit("QuantizeLinear", x, *self.scalars(names), result=node.output[0])
            return
        scale, zero = (self.value(node, name) for name in names)
        if scale.size > 1 or zero.size > 1:
            raise unsupported(node.op_type, "a result with a scale for each channel")
        self.emit(
            "QuantizeLinear",
            x,
            self.constant(scale.reshape(())),
            self.constant(zero.reshape(())),
            result=node.output[0],
        )


def _floats(writer: _Writer, node: onnx.NodeProto) -> None:
    """Operators with one or two quantised operands, and a result that is quantised."""
    count = (len(node.input) - 1) // 3
    values = [writer.real(node, 3 * at)[0] for at in range(count)]
    writer.quantised(node, writer.emit(FLOATS[node.op_type], *values, **_attributes(node)), 3 * count)


def _matmul(writer: _Writer, node: onnx.NodeProto) -> None:
    a, _ = writer.real(node, 0)
    weight = writer.constants.get(node.input[3])
    b, _ = writer.real(node, 3, axis=-1 if weight is None else len(weight.dims) - 1)
    writer.quantised(node, writer.emit("MatMul", a, b), 6)


def _convolution(writer: _Writer, node: onnx.NodeProto) -> None:
    x, step = writer.real(node, 0)
    w, steps = writer.real(node, 3, axis=0)
    bias = [_bias(writer, node, 8, step * steps)] if len(node.input) > 8 else []
    writer.quantised(node, writer.emit(FLOATS[node.op_type], x, w, *bias, **_attributes(node)), 6)


def _gemm(writer: _Writer, node: onnx.NodeProto) -> None:
    attrs = _attributes(node)
    a, step = writer.real(node, 0)
    b, steps = writer.real(node, 3, axis=0 if attrs.get("transB") else 1)
    unit = np.float32(attrs.get("alpha", 1.0)) * step * steps
    bias = [_bias(writer, node, 6, unit)] if len(node.input) > 6 and node.input[6] else []
    quantised = len(node.input) > 8
    found = writer.emit("Gemm", a, b, *bias, result="" if quantised else node.output[0], **attrs)
    if quantised:
        writer.quantised(node, found, 7)


def _bias(writer: _Writer, node: onnx.NodeProto, at: int, unit: Scale) -> str:
    """A bias that is counted in ``unit``."""
    if np.isnan(unit).any():
        raise unsupported(node.op_type, "a bias and a scale that is computed")
    bias = writer.emit("Cast", node.input[at], to=TensorProto.FLOAT)
    return writer.emit("Mul", bias, writer.constant(unit))


def _concat(writer: _Writer, node: onnx.NodeProto) -> None:
    values = [writer.real(node, at)[0] for at in range(2, len(node.input), 3)]
    writer.quantised(node, writer.emit("Concat", *values, **_attributes(node)), 0)


def _whole_convolution(writer: _Writer, node: onnx.NodeProto) -> None:
    x, w, zero, zeros = [*node.input, "", ""][:4]
    x = writer.whole(x, zero)
    if zeros and not writer.is_single(zeros):
        zeros = writer.emit("Reshape", zeros, writer.constant(np.array([-1, *[1] * (_rank(writer, node, w) - 1)])))
    w = writer.whole(w, zeros)
    _whole_result(writer, node, "Conv", x, w, **_attributes(node))


def _whole_product(writer: _Writer, node: onnx.NodeProto) -> None:
    a, b, zero, zeros = [*node.input, "", ""][:4]
    if zero in writer.constants and np.prod(writer.constants[zero].dims) > 1:
        writer.nodes.append(node)  # a zero point for each row: TVM's importer knows where it stands
        return
    _whole_result(writer, node, "MatMul", writer.whole(a, zero), writer.whole(b, zeros))


def _whole_result(writer: _Writer, node: onnx.NodeProto, operator: str, *inputs: str, **attrs: Any) -> None:
    """Sums as whole numbers, unless the model makes float32 of them at once, which they are."""
    if node.output[0] in writer.only_floats:
        writer.in_floats.add(node.output[0])
        writer.emit(operator, *inputs, result=node.output[0], **attrs)
    else:
        sums = writer.emit(operator, *inputs, **attrs)
        writer.emit("Cast", sums, result=node.output[0], to=TensorProto.INT32)


def _only_cast_to_float(graph: onnx.GraphProto) -> frozenset[str]:
    """Values that are cast to float32, and nothing else."""
    cast: set[str] = set()
    others = {value.name for value in graph.output}
    for node in graph.node:
        to = next((attribute.i for attribute in node.attribute if attribute.name == "to"), 0)
        (cast if node.op_type == "Cast" and to == TensorProto.FLOAT else others).update(node.input)
        others.update(name for attribute in node.attribute for name in _outer(attribute))
    return frozenset(cast - others)


def _outer(attribute: onnx.AttributeProto) -> set[str]:
    """Names that the graphs of a branch or a loop read."""
    graphs = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
    return {name for graph in graphs for node in graph.node for name in (*node.input, *_outer_of(node))} | {
        value.name for graph in graphs for value in graph.output
    }


def _outer_of(node: onnx.NodeProto) -> set[str]:
    return {name for attribute in node.attribute for name in _outer(attribute)}


def _product(writer: _Writer, node: onnx.NodeProto) -> None:
    """``MatMulIntegerToFloat``: quantised operands, scales that may be computed, a result in float32."""
    a, b, scale, scales, zero, zeros, bias = [*node.input, "", "", ""][:7]
    _scaled(writer, node, (writer.whole(a, zero), writer.whole(b, zeros)), (scale, scales), bias)


def _dynamic_product(writer: _Writer, node: onnx.NodeProto) -> None:
    """``DynamicQuantizeMatMul``: the same of an operand that is quantised here."""
    a, b, scales, zeros, bias = [*node.input, "", ""][:5]
    names = [f"{node.output[0]}__{part}" for part in ("quantised", "scale", "zero")]
    writer.nodes.append(helper.make_node("DynamicQuantizeLinear", [a], names))
    _scaled(writer, node, (writer.whole(names[0], names[2]), writer.whole(b, zeros)), (names[1], scales), bias)


def _scaled(
    writer: _Writer, node: onnx.NodeProto, operands: tuple[str, str], scales: tuple[str, str], bias: str
) -> None:
    unit = writer.emit("Mul", *scales)
    product = writer.emit("MatMul", *operands)
    if not bias:
        writer.emit("Mul", product, unit, result=node.output[0])
        return
    writer.emit("Add", writer.emit("Mul", product, unit), bias, result=node.output[0])


def _rank(writer: _Writer, node: onnx.NodeProto, weight: str) -> int:
    if weight in writer.constants:
        return len(writer.constants[weight].dims)
    if weight not in writer.ranks:
        raise unsupported(node.op_type, f"weights of an unknown shape ({weight})", "export the model with their shape")
    return writer.ranks[weight]


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Attributes that ONNX's operator has as well."""
    attrs = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if attrs.pop("channels_last", 0):
        raise unsupported(node.op_type, "channels_last")
    return attrs


WRITTEN: dict[str, Callable[[_Writer, onnx.NodeProto], None]] = {
    **dict.fromkeys(FLOATS, _floats),
    "QLinearConv": _convolution,
    "QLinearMatMul": _matmul,
    "QLinearConcat": _concat,
    "QGemm": _gemm,
    "ConvInteger": _whole_convolution,
    "MatMulInteger": _whole_product,
    "MatMulIntegerToFloat": _product,
    "DynamicQuantizeMatMul": _dynamic_product,
}
"""How each operator is written, by its name."""


def in_floats(graph: onnx.GraphProto) -> None:
    """Put operators on float32, and the quantising of their results, in the place of those on quantised tensors.

    Raises:
        UnsupportedOperator: one that is known, but not with the operands or attributes that it has.
    """
    if not any(node.op_type in WRITTEN for node in graph.node):
        return
    writer = _Writer(graph)
    for node in graph.node:
        if node.op_type in WRITTEN:
            WRITTEN[node.op_type](writer, node)
        elif node.op_type == "Cast" and node.input[0] in writer.in_floats:
            writer.emit("Identity", node.input[0], result=node.output[0])
        else:
            writer.nodes.append(node)
    nodes = list(writer.nodes)
    kept = [value for value in graph.value_info if value.name not in writer.in_floats]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    del graph.node[:]
    graph.node.extend(nodes)
