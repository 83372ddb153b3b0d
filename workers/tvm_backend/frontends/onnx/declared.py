"""Shapes that an ONNX file declares for what its operators make, and operands that follow from them.

Programs have fixed shapes. Where a shape, a count or a size depends on the model's inputs, the declared shape of the
result often leaves one value for it. The program is right for inputs that make results of the declared shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from workers.tvm_backend.frontends.onnx.counts import subgraphs

Shape = tuple[int, ...]
Shapes = dict[str, Shape]

SAME_SHAPE = frozenset(
    {
        "Abs",
        "Cast",
        "CastLike",
        "Ceil",
        "Cos",
        "Exp",
        "Floor",
        "Identity",
        "Log",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Sigmoid",
        "Sin",
        "Sqrt",
        "Tanh",
    }
)
"""Operators whose results have the shape of their first operand."""
BROADCAST = frozenset({"Add", "Sub", "Mul", "Div", "Pow"})
"""Operators whose results have the shape of one operand where the other one has one element."""


def declared_shapes(graph: onnx.GraphProto) -> Shapes:
    """Declared shapes by name of the value, and what they say of values that are made on the way."""
    found = {value.name: shape for value in (*graph.output, *graph.value_info) if (shape := _shape(value)) is not None}
    single = {tensor.name for tensor in graph.initializer if int(np.prod(tensor.dims)) == 1}
    single |= {value.name for value in graph.input if (shape := _shape(value)) is not None and math.prod(shape) == 1}
    for node in graph.node:
        elementwise = node.op_type in SAME_SHAPE | BROADCAST and single.issuperset(node.input)
        if elementwise or (node.op_type == "Constant" and _is_single(node)):
            single.add(node.output[0])
    for node in reversed(graph.node):
        shape = found.get(node.output[0]) if node.output else None
        if shape is None:
            continue
        if node.op_type in SAME_SHAPE:
            found.setdefault(node.input[0], shape)
        elif node.op_type in BROADCAST and 1 not in shape:
            for own, other in (node.input, reversed(node.input)):
                if other in single:
                    found.setdefault(own, shape)
    return found


def _shape(value: onnx.ValueInfoProto) -> Shape | None:
    kind = value.type.tensor_type
    if not kind.HasField("shape") or not all(dim.HasField("dim_value") for dim in kind.shape.dim):
        return None
    return tuple(dim.dim_value for dim in kind.shape.dim)


def _is_single(node: onnx.NodeProto) -> bool:
    """Whether a ``Constant`` has one element."""
    for each in node.attribute:
        if each.name == "value":
            return int(np.prod(each.t.dims)) == 1
        if each.name in {"value_float", "value_int"}:
            return True
    return False


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """An attribute's value."""
    found = next((each for each in node.attribute if each.name == name), None)
    return default if found is None else onnx.helper.get_attribute_value(found)


def _whole(node: onnx.NodeProto, shape: Shape) -> Sequence[int]:
    return shape


def _along(default: int) -> Callable[[onnx.NodeProto, Shape], Sequence[int]]:
    return lambda node, shape: [shape[attribute(node, "axis", default)]]


def _of_axes(node: onnx.NodeProto, shape: Shape) -> Sequence[int]:
    return [shape[axis] for axis in attribute(node, "axes", range(len(shape)))]


def _of_grid(node: onnx.NodeProto, shape: Shape) -> Sequence[int]:
    """Sizes of a grid's image, whose channels do not matter."""
    return [shape[0], 1, *shape[1:-1]]


def _sizes(node: onnx.NodeProto, shape: Shape) -> Sequence[int] | None:
    stretched = attribute(node, "keep_aspect_ratio_policy", b"stretch") == b"stretch"
    return _of_axes(node, shape) if stretched else None


DETERMINED: Mapping[str, tuple[int, Callable[[onnx.NodeProto, Shape], Sequence[int] | None]]] = {
    "AffineGrid": (1, _of_grid),
    "BlackmanWindow": (0, _along(0)),
    "CenterCropPad": (1, _of_axes),
    "Col2Im": (1, lambda _, shape: shape[2:]),
    "ConstantOfShape": (0, _whole),
    "Expand": (1, _whole),
    "HammingWindow": (0, _along(0)),
    "HannWindow": (0, _along(0)),
    "MaxUnpool": (2, _whole),
    "OneHot": (1, _along(-1)),
    "Reshape": (1, _whole),
    "Resize": (3, _sizes),
    "TopK": (1, _along(-1)),
}
"""Operands, by operator and place, that follow from the shape of the first result."""
SCALARS = frozenset({"BlackmanWindow", "HammingWindow", "HannWindow"})
"""Operators whose operand is one number, without an axis."""


def fix_operands(graph: onnx.GraphProto, varying: Collection[str]) -> None:
    """Put constants in the place of operands that depend on inputs and follow from declared shapes.

    What is then used no more is taken out.
    """
    shapes = declared_shapes(graph)
    fixed = False
    for node in graph.node:
        value = _split(node, shapes, varying) if node.op_type == "Split" else _determined(node, shapes, varying)
        if value is None:
            continue
        at, numbers = value
        name = f"{node.output[0]}__declared_{at}"
        array = np.array(numbers, np.int64)
        graph.initializer.append(
            onnx.numpy_helper.from_array(array.reshape(()) if node.op_type in SCALARS else array, name)
        )
        node.input[at] = name
        fixed = True
    if fixed:
        drop_unused(graph)


def _determined(node: onnx.NodeProto, shapes: Shapes, varying: Collection[str]) -> tuple[int, Sequence[int]] | None:
    at, make = DETERMINED.get(node.op_type, (0, None))
    if make is None or len(node.input) <= at or node.input[at] not in varying or node.output[0] not in shapes:
        return None
    numbers = make(node, shapes[node.output[0]])
    return None if numbers is None else (at, numbers)


def _split(node: onnx.NodeProto, shapes: Shapes, varying: Collection[str]) -> tuple[int, Sequence[int]] | None:
    if len(node.input) < 2 or node.input[1] not in varying or not all(name in shapes for name in node.output):
        return None
    axis = attribute(node, "axis", 0)
    return 1, [shapes[name][axis] for name in node.output]


def drop_unused(graph: onnx.GraphProto) -> None:
    """Take out operators whose results nothing uses."""
    used = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if used.intersection(node.output):
            kept.append(node)
            used.update(uses(node))
    nodes = kept[::-1]
    del graph.node[:]
    graph.node.extend(nodes)


def uses(node: onnx.NodeProto) -> Iterator[str]:
    """Names that an operator uses, and the graphs inside of it."""
    yield from node.input
    for inner in subgraphs(node):
        yield from (value.name for value in inner.output)
        for each in inner.node:
            yield from uses(each)
