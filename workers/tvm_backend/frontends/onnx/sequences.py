"""ONNX's sequences and optional values, whose lengths and presence are known when a model is imported."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx.onnx_frontend import get_constant

from tunesmith.errors import DynamicShape, ModelRejected
from workers.tvm_backend.frontends.onnx.attention import Attributes
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported

DEPENDS = "{} that depends on the model's inputs"


def take_inputs(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Take an optional input as what it may hold, and a sequence ``x`` as tensors ``x.0``, ``x.1``, … of given shapes.

    Raises:
        DynamicShape: a sequence of which no tensor has a shape.
        ModelRejected: a value has the name of such a tensor.
    """
    given = list(graph.input)
    if all(value.type.HasField("tensor_type") for value in given):
        return
    names = {value.name for value in given} | {name for node in graph.node for name in node.output}
    del graph.input[:]
    made = []
    for value in given:
        kind = value.type.optional_type.elem_type if value.type.HasField("optional_type") else value.type
        if not kind.sequence_type.elem_type.HasField("tensor_type"):
            graph.input.append(onnx.ValueInfoProto(name=value.name, type=kind))
            continue
        parts = list(itertools.takewhile(shapes.__contains__, (f"{value.name}.{at}" for at in itertools.count())))
        _check_parts(value.name, parts, names)
        element = kind.sequence_type.elem_type
        graph.input.extend(onnx.ValueInfoProto(name=part, type=element) for part in parts)
        made.append(onnx.helper.make_node("SequenceConstruct", parts, [value.name]))
    nodes = [*made, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _check_parts(name: str, parts: Sequence[str], names: Collection[str]) -> None:
    if not parts:
        raise DynamicShape(
            f"input {name!r} is a sequence of any length: give the shape of each of its tensors, "
            f"for example with --input {name}.0=1,3,224,224",
            field="inputs",
            value=name,
        )
    for part in parts:
        if part in names:
            raise ModelRejected(
                f"a value has the name {part!r} of a tensor of the sequence {name!r}; rename it",
                field="file",
                value=part,
            )


def _is_present(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """TVM takes no operator without an operand."""
    return None if len(inputs) else relax.const(False, "bool")


def _parts(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """Parts of one size, of which the last may be smaller, or of given sizes: TVM evens out the former."""
    emit, (x, split) = importer.bb.emit, [*inputs, None][:2]
    extents = fixed_extents("SplitToSequence", x)
    axis = attrs.get("axis", 0) % len(extents)
    if split is None:
        sizes = np.array(1)
    else:
        sizes = _known(importer, "SplitToSequence", "a split", split)
    cuts = range(int(sizes), extents[axis], int(sizes)) if sizes.ndim == 0 else np.cumsum(sizes)[:-1].tolist()
    if not len(cuts):
        parts = [x]
    else:
        found = emit(relax.op.split(x, list(cuts), axis))
        parts = [emit(relax.TupleGetItem(found, at)) for at in range(len(cuts) + 1)]
    if split is None and not attrs.get("keepdims", 1):
        parts = [emit(relax.op.squeeze(part, [axis])) for part in parts]
    return relax.Tuple(parts)


def _with_position(name: str, place: int) -> Callable[[Any, Any, Attributes, int], None]:
    """Leaves an operator with a constant position to TVM's importer."""

    def convert(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> None:
        if len(inputs) > place and inputs[place] is not None:
            _known(importer, name, "a position", inputs[place])

    return convert


def _known(importer: Any, name: str, what: str, x: relax.Expr) -> Any:
    """The value of an operand that decides how many tensors there are, or which of them is meant."""
    found = get_constant(x, [importer._nodes, importer._params])
    if not isinstance(found, GenericConst):
        raise unsupported(name, DEPENDS.format(what), f"export the model with {what} that is a constant")
    return found.value.numpy()


CONVERTED: Mapping[str, Callable[[Any, Any, Attributes, int], relax.Expr | None]] = {
    "OptionalHasElement": _is_present,
    "SequenceAt": _with_position("SequenceAt", 1),
    "SequenceErase": _with_position("SequenceErase", 1),
    "SequenceInsert": _with_position("SequenceInsert", 2),
    "SplitToSequence": _parts,
}
"""How each is converted; a converter returns None for what TVM's importer does rightly."""
