"""The small models that mutants are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def _weight(name: str, *shape: int) -> TensorProto:
    values = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    shape: list[int],
    weights: list[TensorProto],
    functions: list[onnx.FunctionProto] | None = None,
) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", [value], [helper.make_empty_tensor_value_info("y")], weights)
    onnx.save(helper.make_model(graph, opset_imports=OPSETS, ir_version=8, functions=functions or []), path)


def convolutions(path: Path) -> None:
    """Convolution, batch normalisation, pooling, a classifier."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]),
        node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["n"], epsilon=1e-5),
        node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["p"], ["a"]),
        node("Flatten", ["a"], ["f"], axis=1),
        node("Gemm", ["f", "v", "b"], ["y"], transB=1),
    ]
    variance = numpy_helper.from_array(np.ones(4, np.float32), "variance")
    _save(
        path,
        nodes,
        [1, 3, 8, 8],
        [
            _weight("w", 4, 3, 3, 3),
            _weight("scale", 4),
            _weight("bias", 4),
            _weight("mean", 4),
            variance,
            _weight("v", 2, 4),
            _weight("b", 2),
        ],
    )


def shapes(path: Path) -> None:
    """Arithmetic on extents, as exporters write it."""
    node = helper.make_node
    index = numpy_helper.from_array(np.array(0, np.int64), "i")
    minus = numpy_helper.from_array(np.array([-1], np.int64), "m")
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "i"], ["d"], axis=0),
        node("Unsqueeze", ["d", "axes"], ["u"]),
        node("Concat", ["u", "m"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["z"]),
        node("MatMul", ["z", "w"], ["p"]),
        node("Softmax", ["p"], ["q"], axis=-1),
        node("Slice", ["q", "a", "e", "axes"], ["l"]),
        node("Transpose", ["l"], ["y"], perm=[1, 0]),
    ]
    numbers = {"axes": [0], "a": [0], "e": [1]}
    _save(
        path,
        nodes,
        [2, 3, 4],
        [
            index,
            minus,
            _weight("w", 12, 6),
            *(numpy_helper.from_array(np.array(each, np.int64), name) for name, each in numbers.items()),
        ],
    )


def functions(path: Path) -> None:
    """A function of the model's own, and two branches."""
    node = helper.make_node
    inner = helper.make_function(
        "own",
        "Scaled",
        ["a"],
        ["b"],
        [
            node("Constant", [], ["two"], value=numpy_helper.from_array(np.array([2.0], np.float32), "two")),
            node("Mul", ["a", "two"], ["b"]),
        ],
        OPSETS,
    )
    outer = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [node("Scaled", ["a"], ["m"], domain="own"), node("Scaled", ["m"], ["b"], domain="own")],
        OPSETS,
    )
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 4])
    branches = [helper.make_graph([node(name, ["t"], ["z"])], name, [], [out]) for name in ("Relu", "Neg")]
    nodes = [
        node("Twice", ["x"], ["t"], domain="own"),
        node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    _save(path, nodes, [2, 4], [numpy_helper.from_array(np.array(True), "c")], [inner, outer])


def quantised(path: Path) -> None:
    """A quantised product between two that are not."""
    node = helper.make_node
    weights = [
        numpy_helper.from_array(np.float32(0.05), "s"),
        numpy_helper.from_array(np.uint8(128), "z"),
        numpy_helper.from_array(np.arange(-8, 8, dtype=np.int8).reshape(4, 4), "w"),
        numpy_helper.from_array(np.int8(0), "n"),
    ]
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "s", "n"], ["v"]),
        node("MatMul", ["d", "v"], ["y"]),
    ]
    _save(path, nodes, [2, 4], weights)


def program(path: Path) -> None:
    """A PyTorch program with a layer, a buffer and an extent that is fixed later."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)
            self.register_buffer("shift", torch.arange(4.0), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.fc(x) + self.shift).reshape(x.shape[0] * 2, -1)

    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=2, max=64)
    torch.export.save(torch.export.export(Net().eval(), (torch.ones(3, 4),), dynamic_shapes={"x": {0: batch}}), path)


def static_program(path: Path) -> None:
    """A PyTorch program with a convolution."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 2))
    torch.export.save(torch.export.export(net.eval(), (torch.ones(1, 3, 6, 6),)), path)


MODELS: Mapping[str, Callable[[Path], None]] = {
    "convolutions.onnx": convolutions,
    "shapes.onnx": shapes,
    "functions.onnx": functions,
    "quantised.onnx": quantised,
    "program.pt2": program,
    "static.pt2": static_program,
}
INPUTS: Mapping[str, dict[str, tuple[int, ...]]] = {"program.pt2": {"x": (4, 4)}}
"""Shapes that are given at the import."""
