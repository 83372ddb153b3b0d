"""Slices whose place depends on inputs, as paddings with fewer elements than none.

The declared shape of a slice says how much it takes. Where it is a slice of what is padded by numbers that depend on
inputs, both are one padding, and the extents between the two need not be known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from workers.tvm_backend.frontends.onnx import declared, solved
from workers.tvm_backend.frontends.onnx.counts import subgraphs


class _Writer:
    """Writes operators for one result, in order."""

    def __init__(self, graph: onnx.GraphProto, prefix: str) -> None:
        self.graph, self.prefix, self.nodes = graph, prefix, list[onnx.NodeProto]()

    def made(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The result of an operator."""
        name = f"{self.prefix}__part{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def numbers(self, values: Sequence[int]) -> str:
        """A constant."""
        name = f"{self.prefix}__numbers{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def cut(self, x: str, begin: int, end: int) -> str:
        """Some of the numbers of a list."""
        return self.made("Slice", x, self.numbers([begin]), self.numbers([end]))

    def pads(self, pad: onnx.NodeProto, count: int) -> tuple[str, str]:
        """How much a padding adds before and behind each of its axes."""
        pads = self.made("Cast", pad.input[1], to=onnx.TensorProto.INT64)
        return self.cut(pads, 0, count), self.cut(pads, count, 2 * count)


def as_paddings(graph: onnx.GraphProto, varying: Set[str]) -> None:
    """Write slices whose starts or ends depend on inputs as paddings, where the shape of their result is declared."""
    shapes, constants = declared.declared_shapes(graph), solved.constants(graph)
    cut = {
        node.output[0]: axes
        for node in graph.node
        if node.op_type == "Slice"
        and varying & {*node.input[1:3]}
        and (axes := _axes(node, shapes.get(node.output[0]), constants)) is not None
    }
    if not cut:
        return
    open_pads = {
        node.output[0]: node
        for node in graph.node
        if node.op_type == "Pad" and node.output[0] not in shapes and varying & {*node.input[1:]}
    }
    whole = {name: pad for name, pad in open_pads.items() if _is_cut(graph, pad, cut, shapes, constants)}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        name, source = (node.output[0], node.input[0]) if node.output and node.input else ("", "")
        write = _Writer(graph, name)
        if name in cut and (source in whole or source not in open_pads):
            _write_slice(write, node, whole.get(source), cut[name], shapes[name])
        elif source in whole:
            _write_extents(write, node, whole[source], *_of_padding(graph, whole[source], cut, shapes))
        elif name not in whole:
            nodes.append(node)
        nodes.extend(write.nodes)
    del graph.node[:]
    graph.node.extend(nodes)


def _axes(node: onnx.NodeProto, shape: Sequence[int] | None, constants: solved.Constants) -> list[int] | None:
    """Axes of a slice, or of a padding; None where they, or steps other than 1, are not known."""
    place = 3
    if shape is None:
        return None
    if len(node.input) > place + 1 and node.input[place + 1]:
        steps = constants.get(node.input[place + 1])
        if steps is None or (steps != 1).any():
            return None
    if len(node.input) <= place or not node.input[place]:
        return list(range(len(shape)))
    axes = constants.get(node.input[place])
    return None if axes is None else [int(axis) % len(shape) for axis in axes.ravel()]


def _of_padding(
    graph: onnx.GraphProto, pad: onnx.NodeProto, cut: Mapping[str, list[int]], shapes: declared.Shapes
) -> tuple[list[int], int]:
    """Axes and rank of a padding that is sliced."""
    name = next(node.output[0] for node in graph.node if node.output[0] in cut and node.input[0] == pad.output[0])
    return cut[name], len(shapes[name])


def _is_cut(
    graph: onnx.GraphProto,
    pad: onnx.NodeProto,
    cut: Mapping[str, list[int]],
    shapes: declared.Shapes,
    constants: solved.Constants,
) -> bool:
    """Whether nothing uses a padding but slices along its axes, and what asks for its shape."""
    name, sliced = pad.output[0], False
    if name in {value.name for value in graph.output}:
        return False
    for node in graph.node:
        if any(name in declared.uses(each) for inner in subgraphs(node) for each in inner.node):
            return False
        if name not in node.input:
            continue
        if node.output[0] in cut and node.input[0] == name:
            sliced = True
            if _axes(pad, shapes[node.output[0]], constants) != cut[node.output[0]]:
                return False
        elif node.op_type != "Shape" or node.attribute:
            return False
    return sliced


def _write_extents(write: _Writer, node: onnx.NodeProto, pad: onnx.NodeProto, axes: list[int], rank: int) -> None:
    """The shape of what is padded."""
    more = write.made("Concat", write.made("Add", *write.pads(pad, len(axes))), write.numbers([0]), axis=0)
    places = [axes.index(at) if at in axes else len(axes) for at in range(rank)]
    spread = write.made("Gather", more, write.numbers(places))
    write.made("Add", write.made("Shape", pad.input[0]), spread)
    write.nodes[-1].output[0] = node.output[0]


def _write_slice(
    write: _Writer, node: onnx.NodeProto, pad: onnx.NodeProto | None, axes: list[int], shape: Sequence[int]
) -> None:
    """A padding by the elements before the slice, less those that it leaves out, and by as many as are then missing."""
    x = pad.input[0] if pad else node.input[0]
    width, zero = write.made("Gather", write.made("Shape", x), write.numbers(axes)), write.numbers([0])
    before, behind = write.pads(pad, len(axes)) if pad else (zero, zero)
    whole = write.made("Add", write.made("Add", width, before), behind)
    starts = write.made("Cast", node.input[1], to=onnx.TensorProto.INT64)
    starts = write.made("Where", write.made("Less", starts, zero), write.made("Add", starts, whole), starts)
    starts = write.made("Min", write.made("Max", starts, zero), whole)
    ahead = write.made("Sub", before, starts)
    extents = write.numbers([shape[axis] for axis in axes])
    pads = write.made("Concat", ahead, write.made("Sub", write.made("Sub", extents, width), ahead), axis=0)
    mode = declared.attribute(pad, "mode", b"constant").decode() if pad else "edge"
    value = pad.input[2] if pad and len(pad.input) > 2 else ""
    write.made("Pad", x, pads, value, write.numbers(axes), mode=mode)
    write.nodes[-1].output[0] = node.output[0]
