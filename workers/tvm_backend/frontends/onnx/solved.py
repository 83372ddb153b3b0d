"""What declared shapes say of values that are computed on the way to them: extents, and shapes.

A function that is written out has no operand any more that is the size of its result. It makes a shape of parts, or
counts up to a number. What ONNX infers of its results, under a name, is what is declared.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from numpy.typing import NDArray
from onnx import numpy_helper

from workers.tvm_backend.frontends.onnx import declared
from workers.tvm_backend.frontends.onnx.counts import subgraphs

Constants = Mapping[str, NDArray[Any]]
Extents = Sequence[int | None]
SMALL = 1024
"""Elements of a weight that may be part of a shape."""
LITERAL: Mapping[str, int] = {"ConstantOfShape": 0, "Expand": 1}
"""Operands by operator that are extents: ``Reshape`` may have -1 or 0 for one as well."""
CARRYING = frozenset({"Cast", "Concat", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze"})
"""Operators that hand on numbers of a shape."""
DEPENDENT: Mapping[str, Sequence[int]] = {"Pad": (1, 3), "Range": (0, 1, 2), "Slice": (1, 2)}
"""Operands by operator that decide a shape that has to be declared."""


def fix_extents(graph: onnx.GraphProto, varying: Collection[str], opset: int) -> None:
    """Put constants in the place of extents that depend on inputs, and that the declared shape of a ``Reshape`` has.

    Only numbers that are extents elsewhere too: there -1 is an error, and 0 leaves nothing to compute.
    """
    reshaped = [node for node in graph.node if node.op_type == "Reshape" and node.input[1] in varying]
    if not reshaped:
        return
    known = constants(graph)
    extents = _before(graph, known)
    made = {name: node for node in graph.node for name in node.output}
    lengths = {name: _length(value) for name, value in _inferred(graph, opset).items()}
    lengths |= {name: array.size for name, array in known.items() if array.ndim == 1}
    found: dict[str, set[int]] = {}
    for node in reshaped:
        for name, extent in _parts(node.input[1], extents.get(node.output[0], ()), made, lengths):
            found.setdefault(name, set()).add(extent)
    names = {}
    for name, each in found.items():
        if len(each) == 1 and name in varying and name in made and _is_extent(graph, name):
            names[name] = f"{name}__declared"
            graph.initializer.append(numpy_helper.from_array(np.array([*each], np.int64), names[name]))
    if names:
        _replace(graph.node, names)
        lengths |= dict.fromkeys(names.values(), 1)
        for node in graph.node:
            _shorten(node, made, lengths, known)
        declared.drop_unused(graph)


def _length(value: onnx.ValueInfoProto) -> int | None:
    """How many numbers a list has."""
    dims = _dims(value)
    return dims[0] if len(dims) == 1 and isinstance(dims[0], int) else None


def _parts(
    name: str, extents: Extents, made: Mapping[str, onnx.NodeProto], lengths: Mapping[str, int | None]
) -> Iterator[tuple[str, int]]:
    """Extents with the names of what they are put together of."""
    node = made.get(name)
    counts = [lengths.get(each) for each in node.input] if node is not None and node.op_type == "Concat" else []
    if node is None or None in counts or sum(each or 0 for each in counts) != len(extents):
        return
    left = iter(extents)
    for each, count in zip(node.input, counts, strict=True):
        values = list(itertools.islice(left, count))
        if len(values) == 1 and values[0] is not None:
            yield each, values[0]


def _shorten(
    node: onnx.NodeProto,
    made: Mapping[str, onnx.NodeProto],
    lengths: Mapping[str, int | None],
    constants: Constants,
) -> None:
    """Put whole parts of a list together where it is cut: others of its parts may not be known."""
    whole = made.get(node.input[0]) if node.op_type == "Slice" and len(node.input) in (3, 4) else None
    bounds = [constants.get(each) for each in node.input[1:3]]
    if whole is None or whole.op_type != "Concat" or any(each is None or each.size != 1 for each in bounds):
        return
    counts = [lengths.get(each) for each in whole.input]
    if None in counts:
        return
    ends = np.cumsum([each or 0 for each in counts]).tolist()
    begin, end, _ = slice(*(int(each.item()) for each in bounds if each is not None)).indices(ends[-1])
    if end > begin and begin in (0, *ends) and end in ends:
        first, last = (begin and ends.index(begin) + 1), ends.index(end) + 1
        parts = list(whole.input)[first:last]
        node.CopyFrom(onnx.helper.make_node("Concat", parts, node.output, name=node.name, axis=0))


def _is_extent(graph: onnx.GraphProto, name: str) -> bool:
    """Whether something takes a number for an extent and nothing else."""
    carried = {name}
    for node in graph.node:
        place = LITERAL.get(node.op_type)
        if place is not None and node.input[place] in carried:
            return True
        if node.op_type in CARRYING and carried.intersection(node.input):
            carried.update(node.output)
    return False


def _before(graph: onnx.GraphProto, constants: Constants) -> dict[str, Extents]:
    """Declared shapes, and those of what is moved or cut on the way to them as far as they are known."""
    found: dict[str, Extents] = dict(declared.declared_shapes(graph))
    for node in reversed(graph.node):
        shape = found.get(node.output[0]) if node.output else None
        if shape is None or not node.input or node.input[0] in found:
            continue
        place = 3 if node.op_type == "Slice" else 1
        given = constants.get(node.input[place]) if len(node.input) > place else None
        axes = declared.attribute(node, "axes", None) if given is None else given.ravel().tolist()
        if node.op_type in declared.SAME_SHAPE:
            found[node.input[0]] = shape
        elif node.op_type == "Slice" and axes is not None:
            off = {axis % len(shape) for axis in axes}
            found[node.input[0]] = [None if at in off else extent for at, extent in enumerate(shape)]
        elif node.op_type == "Squeeze" and axes is not None:
            rank, left = len(shape) + len(axes), iter(shape)
            off = {axis % rank for axis in axes}
            found[node.input[0]] = [1 if at in off else next(left) for at in range(rank)]
    return found


def constants(graph: onnx.GraphProto) -> dict[str, NDArray[Any]]:
    """Small whole numbers that are known."""
    found = {each.name: numpy_helper.to_array(each) for each in graph.initializer if math.prod(each.dims) <= SMALL}
    for node in graph.node:
        if node.op_type != "Constant":
            continue
        for each in node.attribute:
            if each.name in {"value_int", "value_ints"}:
                found[node.output[0]] = np.array(onnx.helper.get_attribute_value(each))
            elif each.name == "value" and math.prod(each.t.dims) <= SMALL:
                found[node.output[0]] = numpy_helper.to_array(each.t)
    return found


def _replace(nodes: Sequence[onnx.NodeProto], names: Mapping[str, str]) -> None:
    for node in nodes:
        for at, name in enumerate(node.input):
            node.input[at] = names.get(name, name)
        for inner in subgraphs(node):
            _replace(inner.node, names)


def state_shapes(graph: onnx.GraphProto, varying: Collection[str], opset: int) -> None:
    """State the shapes that values have where outputs have their declared ones, if an operator needs to know it."""
    known = declared.declared_shapes(graph)
    if not any(
        node.input[at] in varying
        for node in graph.node
        if node.output[0] not in known
        for at in DEPENDENT.get(node.op_type, ())
        if len(node.input) > at
    ):
        return
    inferred = _inferred(graph, opset)
    solved: dict[str, set[int]] = {}
    for name, shape in known.items():
        for symbol, extent in zip(_dims(inferred.get(name)), shape, strict=False):
            if isinstance(symbol, str):
                solved.setdefault(symbol, set()).add(extent)
    values = {symbol: min(each) for symbol, each in solved.items() if len(each) == 1}
    for name, value in inferred.items():
        dims = _dims(value)
        extents = [values.get(each) if isinstance(each, str) else each for each in dims]
        if name not in known and any(isinstance(each, str) for each in dims) and None not in extents:
            kind = value.type.tensor_type.elem_type
            graph.value_info.append(onnx.helper.make_tensor_value_info(name, kind, extents))


def _dims(value: onnx.ValueInfoProto | None) -> list[int | str | None]:
    """Extents that are known, and names of others; None for one without a name."""
    if value is None or not value.type.tensor_type.HasField("shape"):
        return []
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims]


def _inferred(graph: onnx.GraphProto, opset: int) -> dict[str, onnx.ValueInfoProto]:
    """Types that ONNX infers from those of inputs and from small weights, without declared shapes."""
    small = [each for each in graph.initializer if math.prod(each.dims) <= SMALL]
    large = [
        onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in graph.initializer
        if math.prod(each.dims) > SMALL
    ]
    names = {each.name for each in large}
    inputs = [*large, *(each for each in graph.input if each.name not in names)]
    outputs = [onnx.helper.make_empty_tensor_value_info(each.name) for each in graph.output]
    bare = onnx.helper.make_graph(graph.node, "shapes", inputs, outputs, small)
    model = onnx.helper.make_model(bare, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        found = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:
        return {}  # an operator that ONNX does not know: what needs a shape is refused
    return {each.name: each for each in (*found.value_info, *found.output)}
