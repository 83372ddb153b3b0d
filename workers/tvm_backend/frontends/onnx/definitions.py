"""Operators that are missing, and that ONNX itself defines by others, as those others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import onnx
import onnx.inliner
import onnx.shape_inference

from workers.tvm_backend.frontends.onnx import contrib, counts

DEPTH = 4
"""How often definitions are spelled out that may have other such operators in them."""
OWN_DOMAIN = "defined"
"""Domain of definitions that are made for one operator."""
LENGTHS = 6
"""Place of the operand of ``Attention`` that only ONNX's definition knows: how many keys each batch has."""


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All operators, those of branches and loops too."""
    for node in graph.node:
        yield node
        for inner in counts.subgraphs(node):
            yield from nodes(inner)


def opset(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators."""
    return next((int(o.version) for o in model.opset_import if o.domain in contrib.STANDARD), 1)


def of_other_domains(model: onnx.ModelProto) -> onnx.ModelProto:
    """Spell out what ONNX defines in domains besides its first."""
    versions = {each.domain: int(each.version) for each in model.opset_import if each.domain not in contrib.STANDARD}
    names = {(each.domain, each.op_type) for each in nodes(model.graph) if each.domain in versions}
    schemas = {
        (domain, name): onnx.defs.get_schema(name, versions[domain], domain)
        for domain, name in names
        if onnx.defs.has(name, versions[domain], domain)
    }
    return _inlined(model, {each: schema for each, schema in schemas.items() if _is_defined(schema)}) or model


def spelled_out(model: onnx.ModelProto, missing: Callable[[onnx.ModelProto], Collection[str]]) -> onnx.ModelProto:
    """Spell out what is missing until nothing is, or ONNX does not define it."""
    for _ in range(DEPTH):
        version = opset(model)
        names = set(missing(model))
        names |= {
            each.op_type for each in nodes(model.graph) if each.op_type == "Attention" and len(each.input) > LENGTHS
        }
        schemas = {name: onnx.defs.get_schema(name, version) for name in names if onnx.defs.has(name, version)}
        defined = {("", name): schema for name, schema in schemas.items() if _is_defined(schema)}
        made = _inlined(model, defined)
        if made is None:
            break
        model = made
        counts.check_counts(model)
    return model


def _is_defined(schema: onnx.defs.OpSchema) -> bool:
    return bool(schema.has_function or schema.has_context_dependent_function)


def _inlined(model: onnx.ModelProto, defined: Mapping[tuple[str, str], Any]) -> onnx.ModelProto | None:
    """The model with definitions in the place of operators; None where there are none."""
    if not defined:
        return None
    for node in nodes(model.graph):
        schema = defined.get((node.domain, node.op_type))
        given = {attribute.name for attribute in node.attribute}
        node.attribute.extend(
            each.default_value
            for name, each in (schema.attributes.items() if schema else ())
            if name not in given and each.default_value.name
        )
    try:
        _state_types(model)
        _define(model, defined)
        model = onnx.inliner.inline_local_functions(model) if len(model.functions) else model
        return onnx.inliner.inline_selected_functions(model, list(defined), inline_schema_functions=True)
    except (RuntimeError, onnx.shape_inference.InferenceError):
        return None  # it has to know a type that cannot be told: the operator is refused


def _define(model: onnx.ModelProto, defined: Mapping[tuple[str, str], Any]) -> None:
    """Write a function for each operator with an operand left out: ONNX's inliner asks for the types of all of them."""
    types = {value.name: value.type for value in (*model.graph.input, *model.graph.value_info)}
    versions = {each.domain: int(each.version) for each in model.opset_import}
    for node in model.graph.node:
        schema = defined.get((node.domain, node.op_type))
        if schema is None or not schema.has_context_dependent_function or "" not in node.input:
            continue
        given = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
        since = max(each for each in schema.context_dependent_function_opset_versions if each <= versions[node.domain])
        made = schema.get_context_dependent_function_with_opset_version(since, node.SerializeToString(), given)
        function = onnx.FunctionProto.FromString(made)
        function.name, function.domain = f"{node.op_type}_{len(model.functions)}", OWN_DOMAIN
        node.op_type, node.domain = function.name, OWN_DOMAIN
        del node.attribute[:]
        model.functions.append(function)
    if len(model.functions) and OWN_DOMAIN not in versions:
        model.opset_import.append(onnx.helper.make_opsetid(OWN_DOMAIN, 1))


def _state_types(model: onnx.ModelProto) -> None:
    """State the types of weights and of what is computed, which some definitions depend on."""
    graph = model.graph
    known = {value.name for value in (*graph.input, *graph.output, *graph.value_info)}
    weights = [
        onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in graph.initializer
        if each.name not in known
    ]
    without = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    for field, values in (("node", graph.node), ("input", [*graph.input, *weights]), ("output", graph.output)):
        getattr(without.graph, field).extend(values)
    inferred = onnx.shape_inference.infer_shapes(without).graph.value_info
    graph.value_info.extend(value for value in (*weights, *inferred) if value.name not in known)
