"""Branches that a model always takes: what is in them stands in the place of their ``If``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from workers.tvm_backend.frontends.onnx.counts import subgraphs
from workers.tvm_backend.frontends.onnx.operands import OF_TYPES
from workers.tvm_backend.frontends.onnx.shapes import DRAWN, LARGEST, by_reference

MOST_NODES = 64
"""Operators of which a condition is computed at most."""
Shapes = Mapping[str, Sequence[int]]


def take_known(graph: onnx.GraphProto, opset: int, shapes: Shapes) -> None:
    """Put a branch in the place of each ``If`` outside of other graphs whose condition depends on no input's numbers.

    Args:
        shapes: shapes of inputs whose declared shapes are not fixed.
    """
    if not any(node.op_type == "If" for node in graph.node):
        return
    found, left = _Known(graph, opset, shapes), list(graph.node)[::-1]
    nodes: list[onnx.NodeProto] = []
    while left:
        node = left.pop()
        truth = found.truth(node.input[0]) if node.op_type == "If" else None
        if truth is None:
            nodes.append(node)
            found.add(node)
        else:
            name = "then_branch" if truth else "else_branch"
            branch = next(each.g for each in node.attribute if each.name == name)
            left.extend(reversed(_written(graph, node, branch)))
            found.weights.update({each.name: each for each in graph.initializer})
    del graph.node[:]
    graph.node.extend(nodes)


def _written(graph: onnx.GraphProto, node: onnx.NodeProto, branch: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The branch's operators under names of their own, and its results under those of the ``If``."""
    own = [name for each in branch.node for name in each.output if name]
    own += [each.name for each in branch.initializer]
    prefix = next(filter(None, node.output), branch.name)
    names = {name: f"{prefix}__{name}" for name in own}
    for tensor in branch.initializer:
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = names[tensor.name]
    nodes = []
    for each in branch.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(each)
        _rename(copy, names)
        nodes.append(copy)
    results = [names.get(value.name, value.name) for value in branch.output]
    return nodes + [
        onnx.helper.make_node("Identity", [inner], [outer])
        for inner, outer in zip(results, node.output, strict=True)
        if outer
    ]


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    for field in (node.input, node.output):
        for at, name in enumerate(field):
            field[at] = names.get(name, name)
    for inner in subgraphs(node):
        for value in inner.output:
            value.name = names.get(value.name, value.name)
        for each in inner.node:
            _rename(each, names)


class _Known:
    """Conditions that follow from constants and from the shapes of inputs."""

    def __init__(self, graph: onnx.GraphProto, opset: int, shapes: Shapes) -> None:
        self.opset = opset
        self.weights = {each.name: each for each in graph.initializer}
        self.made: dict[str, tuple[int, onnx.NodeProto]] = {}
        self.shapes = {value.name: shape for value in graph.input if (shape := _shape(value, shapes)) is not None}
        self.kinds = {value.name: value.type.tensor_type.elem_type for value in graph.input}

    def add(self, node: onnx.NodeProto) -> None:
        """Add an operator, after those before it."""
        for name in filter(None, node.output):
            self.made[name] = len(self.made), node

    def truth(self, name: str) -> bool | None:
        """Whether the condition holds; None where that is not known."""
        nodes: dict[int, onnx.NodeProto] = {}
        weights, inputs, left, seen = [], set(), [name], {""}
        while left:
            each = left.pop()
            if each in seen:
                continue
            seen.add(each)
            if each in self.weights:
                weights.append(self.weights[each])
                continue
            place, node = self.made.get(each, (0, None))
            if node is None or len(nodes) == MOST_NODES or node.op_type in DRAWN or any(subgraphs(node)):
                return None
            nodes[place] = node
            if node.op_type in OF_TYPES and node.input[0] in self.shapes:
                inputs.add(node.input[0])
            else:
                left.extend(node.input)
        if sum(math.prod(each.dims) for each in weights) > LARGEST:
            return None
        return self._computed(name, [nodes[at] for at in sorted(nodes)], weights, inputs)

    def _computed(
        self, name: str, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], inputs: set[str]
    ) -> bool | None:
        given = [onnx.helper.make_tensor_value_info(each, self.kinds[each], self.shapes[each]) for each in inputs]
        out = [onnx.helper.make_empty_tensor_value_info(name)]
        graph = onnx.helper.make_graph(nodes, "condition", given, out, weights)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self.opset)])
        nothing = {each: np.broadcast_to(np.zeros((), np.float32), self.shapes[each]) for each in inputs}
        found = by_reference(model, nothing)
        if found is None or (array := np.asarray(found[0])).size != 1:
            return None
        return bool(array.item())


def _shape(value: onnx.ValueInfoProto, shapes: Shapes) -> Sequence[int] | None:
    if value.name in shapes:
        return shapes[value.name]
    kind = value.type.tensor_type
    if not kind.HasField("shape") or not all(dim.HasField("dim_value") for dim in kind.shape.dim):
        return None
    return [dim.dim_value for dim in kind.shape.dim]
