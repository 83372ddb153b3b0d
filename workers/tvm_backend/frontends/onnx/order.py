"""The names in an ONNX file: each is made once, before it is used."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from tunesmith.errors import ModelRejected
from workers.tvm_backend.frontends.onnx.counts import subgraphs

Scopes = list[set[str]]
"""Names that a graph knows: those of the graphs around it first, its own last."""


def check_order(model: onnx.ModelProto) -> None:
    """Refuse cycles, operators in another order than they are computed in, and values that are made twice.

    Raises:
        ModelRejected: naming the operator and the value.
    """
    if model.graph.sparse_initializer:
        names = [each.values.name for each in model.graph.sparse_initializer]
        raise ModelRejected(
            f"{len(names)} weights are sparse ({names[0]!r} first); export the model with dense ones",
            field="file",
            weights=len(names),
        )
    _check_graph(model.graph, [])
    for function in model.functions:
        _check_nodes(function.node, function.output, [set(function.input)], f"function {function.name!r}")


def _check_graph(graph: onnx.GraphProto, outer: Scopes) -> None:
    own = {value.name for value in (*graph.input, *graph.initializer)}
    own.update(each.values.name for each in graph.sparse_initializer)
    _check_nodes(graph.node, [value.name for value in graph.output], [*outer, own], f"graph {graph.name!r}")


def _check_nodes(nodes: Iterable[onnx.NodeProto], outputs: Iterable[str], scopes: Scopes, place: str) -> None:
    """Check nodes in order; the last scope grows by what they make."""
    made: set[str] = set()
    for node in nodes:
        label = f"{node.op_type} {node.name!r} in {place}"
        missing = _unknown(node.input, scopes)
        if missing is not None:
            raise ModelRejected(
                f"{label} uses {missing!r}, which nothing before it makes: the graph has a cycle or is "
                "not in the order of its computation",
                field="file",
                value=missing,
            )
        for graph in subgraphs(node):
            _check_graph(graph, scopes)
        for name in filter(None, node.output):
            if name in made:
                raise ModelRejected(
                    f"{label} makes {name!r}, which another operator makes already", field="file", value=name
                )
            made.add(name)
            scopes[-1].add(name)
    missing = _unknown(outputs, scopes)
    if missing is not None:
        raise ModelRejected(f"{place} has the output {missing!r}, which nothing makes", field="file", value=missing)


def _unknown(names: Iterable[str], scopes: Scopes) -> str | None:
    """The first name that no scope has; omitted operands have none."""
    return next((name for name in names if name and not any(name in scope for scope in scopes)), None)
