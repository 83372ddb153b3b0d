"""Small ONNX networks with random weights, written operator by operator, and how they run."""

from __future__ import annotations

import collections
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from run_once import machine

from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.passes import pipeline  # noqa: E402

Array = NDArray[Any]


class Net:
    """A network under construction; values are named by strings, and ``shapes`` knows the extents of each."""

    def __init__(self, *shape: int, seed: int = 0, opset: int = 14) -> None:
        self.rng, self.opset = np.random.default_rng(seed), opset
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {"x": shape}

    def constant(self, values: Any) -> str:
        """A float32 weight, or an int64 one for axes and shapes."""
        array = np.asarray(values)
        name = f"w{len(self.weights)}"
        kind = np.int64 if array.dtype.kind == "i" else np.float32
        self.weights.append(numpy_helper.from_array(array.astype(kind), name))
        self.shapes[name] = array.shape
        return name

    def random(self, *shape: int) -> str:
        """A normal weight; those of more than one axis keep the scale of what they multiply."""
        scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.5
        return self.constant(self.rng.normal(0, scale, shape))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator of one result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        self.shapes[name] = self._shape(name)
        return name

    def conv(self, x: str, out: int, kernel: int = 3, **attributes: Any) -> str:
        """A convolution with bias; ``pads`` keeps the extents where nothing else is said."""
        attributes.setdefault("pads", [kernel // 2] * 4)
        inputs = self.shapes[x][1] // attributes.get("group", 1)
        return self.op("Conv", x, self.random(out, inputs, kernel, kernel), self.random(out), **attributes)

    def depthwise(self, x: str, kernel: int = 3, **attributes: Any) -> str:
        """Each channel by itself."""
        return self.conv(x, self.shapes[x][1], kernel, group=self.shapes[x][1], **attributes)

    def norm(self, x: str) -> str:
        """Batch normalisation with random statistics."""
        channels = self.shapes[x][1]
        scale, variance = (self.constant(self.rng.uniform(0.5, 1.5, channels)) for _ in range(2))
        return self.op("BatchNormalization", x, scale, self.random(channels), self.random(channels), variance)

    def clip(self, x: str, low: float, high: float) -> str:
        """Bounds as inputs, or as attributes where the operator set is an old one."""
        if self.opset < 11:
            return self.op("Clip", x, min=low, max=high)
        return self.op("Clip", x, self.constant(np.float32(low)), self.constant(np.float32(high)))

    def save(self, path: Path, *outputs: str) -> Path:
        """Write the network with these outputs."""
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "net",
            [value("x", TensorProto.FLOAT, self.shapes["x"])],
            [value(name, TensorProto.FLOAT, self.shapes[name]) for name in outputs],
            self.weights,
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8), path)
        return path

    def _shape(self, name: str) -> tuple[int, ...]:
        """The extents of the last value, from the extents of its operands."""
        node, known = self.nodes[-1], {weight.name: weight for weight in self.weights}
        value = helper.make_tensor_value_info
        inputs = [value(each, TensorProto.FLOAT, self.shapes[each]) for each in set(node.input) if each not in known]
        weights = [known[each] for each in set(node.input) if each in known]
        graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info(name)], weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        (out,) = onnx.shape_inference.infer_shapes(made, data_prop=True, strict_mode=True).graph.output
        return tuple(int(dim.dim_value) for dim in out.type.tensor_type.shape.dim)


def residual_trunk(net: Net) -> str:
    """A pool, a sum with what a block began with, and a concatenation with a depthwise convolution: 48 channels."""
    y = net.op("Relu", net.conv("x", 32, 5, strides=[2, 2]))
    y = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = net.op("Relu", net.op("Add", net.conv(net.op("Relu", net.conv(y, 32)), 32), y))
    return net.op("Concat", net.op("Relu", net.depthwise(y)), net.op("Relu", net.conv(y, 16, 1)), axis=1)


def plain_trunk(net: Net) -> str:
    """A depthwise convolution between products of groups whose channels fill no blocks: 24 channels."""
    y = net.op("Relu", net.conv("x", 36, 1, group=3))
    return net.conv(net.op("Relu", net.depthwise(y)), 24, 1, group=3)


def wide_trunk(net: Net, channels: int) -> str:
    """Maps of so many channels and more: a strided convolution, a pool, a sum, parts that are joined, a slice."""
    y = net.op("Relu", net.conv("x", channels, 3, strides=[2, 2]))
    y = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = net.op("Relu", net.op("Add", net.conv(y, channels), y))
    y = net.op("Concat", net.op("Relu", net.conv(y, channels, 1)), net.op("Relu", net.depthwise(y)), axis=1)
    return net.op("Relu", net.conv(y, channels + 16, 1))


def blocks(module: bytes) -> set[int]:
    """Channels of the blocks in which the maps of ``main`` lie."""
    found = [binding.var.ty for block in tir.load_module(module)["main"].body.blocks for binding in block.bindings]
    last = {int(kind.shape.values[-1]) for kind in found if getattr(kind, "ndim", 0) == 5}
    return {channels for channels in last if channels > 4}  # fewer are what shares a lane


def bare(name: str) -> str:
    """The name of a function without the numbers that tell those of one name apart."""
    return re.sub(r"\d+(?=_|$)", "", name)


def calls(module: bytes) -> collections.Counter[str]:
    """How often ``main`` calls each function."""
    found: collections.Counter[str] = collections.Counter()
    for block in tir.load_module(module)["main"].body.blocks:
        for binding in block.bindings:
            if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_tir":
                found[bare(str(binding.value.args[0].name_hint))] += 1
    return found


def run_network(made: pipeline.Prepared, *inputs: Array) -> list[Array]:
    """The outputs of a prepared model, compiled untuned."""
    arrays = [tvm.runtime.tensor(x) for x in (*inputs, *made.params.values())]
    out = machine(tir.load_module(made.module))["main"](*arrays)
    return [each.numpy() for each in ([out] if isinstance(out, tvm.runtime.Tensor) else out)]


def by_onnxruntime(path: Path, *inputs: Array) -> list[Array]:
    """The outputs that onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = dict(zip((i.name for i in session.get_inputs()), inputs, strict=True))
    return [np.asarray(out) for out in session.run(None, given)]
