"""A VGG-like ONNX model of a given size in one file: little convolutions, huge dense layers, quick to make and to run.

Written weight by weight, because whoever builds such a model in memory needs several times its size. Protobuf allows
that: a message is the concatenation of its fields, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

GRAPH_IN_MODEL, WEIGHT_IN_GRAPH, RAW_IN_TENSOR = 7, 5, 9
"""Field numbers of onnx.proto."""
ROWS = 512
SIDE, CHANNELS, FEATURES, CLASSES = 16, 32, 32 * 4 * 4, 64
Shape = tuple[int, ...]


def vgg(path: Path, width: int) -> Path:
    """Write ``x`` float32 [1, 3, 16, 16] to ``y`` [1, 64] with about ``4·(2·width² + 576·width)`` bytes of weights."""
    weights: dict[str, Shape] = {
        "c0": (CHANNELS, 3, 3, 3),
        "b0": (CHANNELS,),
        "c1": (CHANNELS, CHANNELS, 3, 3),
        "b1": (CHANNELS,),
        "w0": (width, FEATURES),
        "w1": (width, width),
        "w2": (width, width),
        "w3": (CLASSES, width),
    }
    tensors = {name: _tensor(name, shape) for name, shape in weights.items()}
    sizes = {name: len(tensors[name]) + len(_head(RAW_IN_TENSOR, n)) + n for name, n in _bytes(weights).items()}
    graph = _graph().SerializeToString()
    total = len(graph) + sum(len(_head(WEIGHT_IN_GRAPH, size)) + size for size in sizes.values())
    opsets = [helper.make_opsetid("", 13)]
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(onnx.ModelProto(ir_version=8, opset_import=opsets).SerializeToString())
        file.write(_head(GRAPH_IN_MODEL, total) + graph)
        for name, shape in weights.items():
            file.write(_head(WEIGHT_IN_GRAPH, sizes[name]) + tensors[name])
            file.write(_head(RAW_IN_TENSOR, _bytes(weights)[name]))
            for rows in _rows(rng, shape):
                file.write(rows.tobytes())
    return path


def _graph() -> onnx.GraphProto:
    """The nodes; the weights come later."""
    value = helper.make_tensor_value_info
    nodes = []
    before = "x"
    for i in range(2):
        nodes.append(
            helper.make_node("Conv", [before, f"c{i}", f"b{i}"], [f"k{i}"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"k{i}"], [f"r{i}"]))
        nodes.append(helper.make_node("MaxPool", [f"r{i}"], [f"m{i}"], kernel_shape=[2, 2], strides=[2, 2]))
        before = f"m{i}"
    nodes.append(helper.make_node("Flatten", [before], ["f"]))
    before = "f"
    for i in range(3):
        nodes.append(helper.make_node("Gemm", [before, f"w{i}"], [f"g{i}"], transB=1))
        nodes.append(helper.make_node("Relu", [f"g{i}"], [f"h{i}"]))
        before = f"h{i}"
    nodes.append(helper.make_node("Gemm", [before, "w3"], ["y"], transB=1))
    return helper.make_graph(
        nodes, "vgg", [value("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])], [value("y", TensorProto.FLOAT, [1, CLASSES])]
    )


def _rows(rng: np.random.Generator, shape: Shape) -> Iterator[NDArray[np.float32]]:
    """He-scaled numbers of one weight, some rows at a time.

    Rows are windows of one random sequence under random scales of rows and columns: all different, at the price of a
    copy.
    """
    rows, columns = shape[0], int(np.prod(shape[1:]))
    sequence = rng.standard_normal(rows + columns, dtype=np.float32) * np.float32(np.sqrt(2 / columns))
    windows = np.lib.stride_tricks.sliding_window_view(sequence, columns)
    across = rng.uniform(0.8, 1.2, columns).astype(np.float32)
    for start in range(0, rows, ROWS):
        part = windows[start : min(start + ROWS, rows)]
        yield part * across * rng.uniform(0.8, 1.2, (len(part), 1)).astype(np.float32)


def _bytes(weights: dict[str, Shape]) -> dict[str, int]:
    return {name: 4 * int(np.prod(shape)) for name, shape in weights.items()}


def _tensor(name: str, shape: Shape) -> bytes:
    """A weight's fields without its data."""
    return TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT).SerializeToString()


def _head(field: int, size: int) -> bytes:
    """What stands before ``size`` bytes of a length-delimited field."""
    return _varint(field << 3 | 2) + _varint(size)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
