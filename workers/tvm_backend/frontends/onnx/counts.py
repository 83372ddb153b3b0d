"""How much an ONNX file grows when its functions are written out, counted before anything is written out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import onnx

from tunesmith.errors import ModelRejected
from tunesmith.model_limits import (
    MAX_CALL_DEPTH,
    MAX_EDGES,
    MAX_FUNCTIONS,
    MAX_NODES,
    MAX_OPERANDS,
    MAX_TENSOR_BYTES,
)

Name = tuple[str, str, str]


class Size(NamedTuple):
    """What a graph or a function is made of.

    Attributes:
        nodes: operators, those of branches and called functions included.
        edges: inputs and outputs of them.
        bytes: bytes of called functions and of attributes that they take, as often as these are written.
        references: places where attributes of a call are written.
        depth: functions inside functions.
    """

    nodes: int = 0
    edges: int = 0
    bytes: int = 0
    references: int = 0
    depth: int = 0

    def plus(self, other: Size, times: int = 1) -> Size:
        """This and another, so many times."""
        return Size(
            self.nodes + times * other.nodes,
            self.edges + times * other.edges,
            self.bytes + times * other.bytes,
            self.references + times * other.references,
            max(self.depth, other.depth),
        )


def check_counts(model: onnx.ModelProto) -> None:
    """Refuse models whose functions call themselves, or that are too large once these are written out.

    Raises:
        ModelRejected: naming the count and the limit.
    """
    if len(model.functions) > MAX_FUNCTIONS:
        raise _too_many(len(model.functions), "functions", MAX_FUNCTIONS)
    functions: dict[Name, onnx.FunctionProto] = {}
    for function in model.functions:
        name = _name(function.domain, function.name, function.overload)
        if name in functions:
            raise ModelRejected(f"the function {_shown(name)} is defined twice", field="file", value=_shown(name))
        functions[name] = function
    counter = _Counter(functions)
    for name in functions:
        counter.function(name, 1)
    graphs = [
        model.graph,
        *(each.algorithm for each in model.training_info),
        *(each.initialization for each in model.training_info),
    ]
    total = Size()
    for graph in graphs:
        total = total.plus(counter.nodes(graph.node, 0))
    _check(total)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Graphs that are attributes of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


class _Counter:
    """Counts each function once, however often it is called."""

    def __init__(self, functions: dict[Name, onnx.FunctionProto]) -> None:
        self.functions = functions
        self.sizes: dict[Name, Size] = {}
        self.open: dict[Name, None] = {}

    def function(self, name: Name, depth: int) -> Size:
        if name in self.open:
            chain = [*self.open, name]
            chain = chain[chain.index(name) :]
            raise ModelRejected(
                f"the function {_shown(name)} calls itself: {' → '.join(map(_shown, chain[:6]))}",
                field="file",
                value=_shown(name),
            )
        if name not in self.sizes:
            if depth > MAX_CALL_DEPTH:
                raise _too_many(depth, "functions inside one another", MAX_CALL_DEPTH)
            self.open[name] = None
            size = self.nodes(self.functions[name].node, depth)
            del self.open[name]
            self.sizes[name] = size._replace(bytes=size.bytes + self.functions[name].ByteSize(), depth=size.depth + 1)
            _check(self.sizes[name])
        return self.sizes[name]

    def nodes(self, nodes: Iterable[onnx.NodeProto], depth: int) -> Size:
        total = Size()
        for node in nodes:
            operands = max(len(node.input), len(node.output))
            if operands > MAX_OPERANDS:
                raise _too_many(operands, f"inputs or outputs of {node.op_type} {node.name!r}", MAX_OPERANDS)
            total = total.plus(self._node(node, depth))
            _check(total)
        return total

    def _node(self, node: onnx.NodeProto, depth: int) -> Size:
        name = _name(node.domain, node.op_type, node.overload)
        references = sum(1 for attribute in node.attribute if attribute.ref_attr_name)
        size, copies = Size(1, len(node.input) + len(node.output), 0, references), 1
        if name in self.functions:
            called = self.function(name, depth + 1)
            copies = max(called.references, 1)
            given = sum(attribute.ByteSize() for attribute in node.attribute)
            size = Size(size.nodes, size.edges, given * copies, references * copies)
            size = size.plus(called._replace(references=0))
        for graph in subgraphs(node):
            size = size.plus(self.nodes(graph.node, depth), copies)
        return size


def _check(size: Size) -> None:
    for count, what, limit in (
        (size.depth, "functions inside one another", MAX_CALL_DEPTH),
        (size.nodes, "operators once its functions are written out", MAX_NODES),
        (size.edges, "inputs and outputs of operators", MAX_EDGES),
        (size.bytes, "bytes once its functions are written out", MAX_TENSOR_BYTES),
    ):
        if count > limit:
            raise _too_many(count, what, limit)


def _name(domain: str, name: str, overload: str) -> Name:
    return "" if domain == "ai.onnx" else domain, name, overload


def _shown(name: Name) -> str:
    return ".".join(part for part in name if part)


def _too_many(count: int, what: str, limit: int) -> ModelRejected:
    return ModelRejected(f"the model has {_rough(count)} {what}; up to {limit} are accepted", field="file", limit=limit)


def _rough(count: int) -> str:
    return str(count) if count < 10**15 else f"over 10^{len(str(count)) - 1}"
