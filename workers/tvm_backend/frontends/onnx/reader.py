"""ONNX files into Relax, with refusals that name what is wrong."""

from __future__ import annotations

import collections
import contextlib
import io
import json
import math
import os
import warnings
from pathlib import Path

import onnx
import onnx.inliner
import onnx.shape_inference
import tvm
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

from tunesmith.errors import (
    DynamicShape,
    InvalidInput,
    ModelRejected,
    NotAModel,
    TunesmithError,
    UnsupportedOperator,
    first_line,
)
from tunesmith.model_files import check_onnx
from tunesmith.model_limits import MAX_ELEMENTS
from workers.tvm_backend.frontends.onnx import (
    branches,
    contrib,
    counts,
    declared,
    definitions,
    operands,
    order,
    packed,
    quantized,
    recurrent,
    sequences,
    slices,
    solved,
    tensors,
)
from workers.tvm_backend.frontends.onnx.importer import OWN, Importer

HANDLED = frozenset({"Constant", "If", *recurrent.CELLS}.union(*OWN))
"""Operators that TVM's importer takes without an entry in its converter table, and those that are converted here."""


def read(path: Path, shapes: dict[str, tuple[int, ...]]) -> tvm.IRModule:
    """Import an ONNX file; see :func:`workers.tvm_backend.frontends.import_model.import_model`."""
    check_onnx(path)
    try:
        model = onnx.load(os.fspath(path), load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise NotAModel(f"the file does not parse as an ONNX model: {first_line(error)}", field="file") from error
    tensors.check_tensors(model)
    counts.check_counts(model)
    order.check_order(model)
    try:
        return _imported(model, shapes)
    except TunesmithError:
        raise
    except Exception as error:
        # ONNX and TVM's importer raise whatever the operator at hand makes them raise.
        raise ModelRejected(f"TVM cannot import the model: {first_line(error)}", field="file") from error


def _imported(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]) -> tvm.IRModule:
    if len(model.functions):
        model = onnx.inliner.inline_local_functions(model)
    sequences.take_inputs(model.graph, shapes)
    packed.unpack(model.graph)
    quantized.in_floats(model.graph)
    model = definitions.of_other_domains(model)
    contrib.qualify(list(definitions.nodes(model.graph)))
    declared.fix_operands(model.graph, operands.varying_values(model.graph))
    model = definitions.spelled_out(model, lambda each: set(_missing(each)))
    _fix_shapes(model.graph, definitions.opset(model), shapes)
    _check_operators(model)
    operands.check_operands(model.graph)
    names = _check_inputs(model.graph, shapes)
    _split_sums(model.graph)
    # TVM prints what it fails to convert, in the middle of a command's JSON.
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        # Not from_onnx: it runs ONNX's checker first, which copies the model twice and only warns.
        given = {**_without_elements(model.graph), **{n: list(shape) for n, shape in shapes.items()}}
        mod = Importer(given, declared.declared_shapes(model.graph)).from_onnx(model.graph, definitions.opset(model))
    mod["main"] = mod["main"].with_attr("input_names", json.dumps(names))
    return mod


def _fix_shapes(graph: onnx.GraphProto, opset: int, shapes: dict[str, tuple[int, ...]]) -> None:
    """Take from declared shapes what depends on inputs and has to be known."""
    branches.take_known(graph, opset, shapes)
    solved.fix_extents(graph, operands.varying_values(graph), opset)
    branches.take_known(graph, opset, shapes)  # a condition may depend on an extent
    declared.fix_operands(graph, operands.varying_values(graph))
    varying = operands.varying_values(graph)
    solved.state_shapes(graph, varying, opset)
    slices.as_paddings(graph, varying)


def _without_elements(graph: onnx.GraphProto) -> dict[str, list[int]]:
    """Shapes of inputs with an extent of 0, which TVM's importer takes for one that is not known."""
    shapes = {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in graph.input}
    known = {v.name: all(d.HasField("dim_value") for d in v.type.tensor_type.shape.dim) for v in graph.input}
    return {name: shape for name, shape in shapes.items() if known[name] and 0 in shape}


def _missing(model: onnx.ModelProto) -> collections.Counter[str]:
    """How often the model uses each operator that is not known."""
    opset, known = definitions.opset(model), _get_convert_map()
    missing: collections.Counter[str] = collections.Counter()
    for node in definitions.nodes(model.graph):
        name = node.op_type
        if name in HANDLED:
            continue
        if name in contrib.NOT_ONNX or name not in known or not _has_version(known[name], opset):
            missing[name] += 1
    return missing


def _check_operators(model: onnx.ModelProto) -> None:
    opset, missing = definitions.opset(model), _missing(model)
    if missing:
        listed = ", ".join(f"{name} ({count}×)" for name, count in sorted(missing.items()))
        raise UnsupportedOperator(
            f"TVM's importer lacks operators of this model (opset {opset}): {listed}; "
            "export it without them, for example at another opset",
            field="file",
            operators=dict(sorted(missing.items())),
        )


def _has_version(converter: type, opset: int) -> bool:
    try:
        converter.get_converter(opset)  # type: ignore[attr-defined]
    except NotImplementedError:
        return False
    return True


def _check_inputs(graph: onnx.GraphProto, shapes: dict[str, tuple[int, ...]]) -> list[str]:
    """The names of the model's inputs, in order; every one has a static shape."""
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    names = [value.name for value in inputs]
    for name in shapes:
        if name not in names:
            raise InvalidInput(
                f"the model has no input {name!r}, it has {', '.join(map(repr, names)) or 'none'}",
                field="inputs",
                value=name,
            )
    for value in inputs:
        dims: list[int | str] = [
            d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in value.type.tensor_type.shape.dim
        ]
        known = value.type.tensor_type.HasField("shape")
        check_shape(value.name, dims if known else None, shapes.get(value.name))
    return names


def check_shape(name: str, dims: list[int | str] | None, given: tuple[int, ...] | None) -> None:
    """Compare an input's declared dimensions (None: unknown rank; text: dynamic) with the given shape.

    Raises:
        DynamicShape: a dynamic dimension and no shape given.
        InvalidInput: the given shape contradicts the model.
    """
    if given is not None and math.prod(given) > MAX_ELEMENTS:
        raise InvalidInput(
            f"input {name!r} cannot have the shape {list(given)}: a tensor has up to {MAX_ELEMENTS} elements",
            field="inputs",
            value=list(given),
        )
    if given is None:
        if dims is None:
            raise DynamicShape(
                f"input {name!r} has no shape: fix it, for example with --input {name}=1,3,224,224",
                field="inputs",
                value=name,
            )
        dynamic = [f"{i} ({d!r})" for i, d in enumerate(dims) if isinstance(d, str)]
        if dynamic:
            example = ",".join(str(d) if isinstance(d, int) else "1" for d in dims)
            raise DynamicShape(
                f"input {name!r} has the dynamic dimension {', '.join(dynamic)}: fix its shape, "
                f"for example with --input {name}={example}",
                field="inputs",
                value=name,
                dimensions=[d for d in dims if isinstance(d, str)],
            )
        return
    fits = dims is None or (
        len(dims) == len(given) and all(isinstance(d, str) or d == g for d, g in zip(dims, given, strict=True))
    )
    if not fits or min(given, default=1) < 1:
        example = ",".join(str(d) if isinstance(d, int) else "1" for d in dims or [1, 3, 224, 224])
        raise InvalidInput(
            f"input {name!r} has the shape {dims or 'of any rank'}, which {list(given)} does not fit; "
            f"give for example --input {name}={example}",
            field="inputs",
            value=list(given),
        )


def _split_sums(graph: onnx.GraphProto) -> None:
    """Replace ``Sum`` by ``Add``: TVM imports the former as stack and reduce, which copies every operand."""
    nodes = list(graph.node)
    if not any(node.op_type == "Sum" and len(node.input) > 1 for node in nodes):
        return
    del graph.node[:]
    for node in nodes:
        if node.op_type != "Sum" or len(node.input) < 2:
            graph.node.append(node)
            continue
        total, (last, count) = node.input[0], (node.output[0], len(node.input))
        for i, operand in enumerate(node.input[1:], start=1):
            result = last if i == count - 1 else f"{last}__partial{i}"
            graph.node.append(onnx.helper.make_node("Add", [total, operand], [result], name=f"{node.name}__{i}"))
            total = result
