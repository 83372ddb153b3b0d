"""ONNX graphs of float32 put together node by node, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import onnx

OPSET, IR_VERSION = 17, 8


class Graph:
    """A graph that grows; values are known by their names.

    Args:
        name: of the graph.
        seed: of the weights.
    """

    def __init__(self, name: str, seed: int) -> None:
        self._name, self._rng = name, np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator of one output; returns the output."""
        from onnx import helper

        output = f"{kind.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, values: ArrayLike, dtype: str = "float32") -> str:
        """Add a constant."""
        from onnx import numpy_helper

        name = f"w{len(self._tensors)}"
        self._tensors.append(numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def weight(self, *shape: int, fan_in: int, gain: float = 1.0) -> str:
        """Add normal weights whose variance over the fan-in keeps the signal's size, times ``gain`` squared."""
        return self.constant(self._rng.standard_normal(shape, dtype=np.float32) * np.float32(gain / np.sqrt(fan_in)))

    def around(self, value: float, size: int) -> str:
        """Add a vector near ``value``: a bias, or a scale."""
        return self.constant(value + 0.1 * self._rng.standard_normal(size))

    def convolution(
        self,
        value: str,
        channels: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        gain: float = 2**0.5,
        axes: int = 2,
    ) -> str:
        """Add a convolution with bias, as long along each axis, that keeps the size of the map but for the stride.

        Args:
            gain: of the weights, √2 where a rectifier follows (He et al., 2015).
            axes: of the map beside its channels.
        """
        inside, window = channels // groups, [kernel] * axes
        weight = self.weight(outputs, inside, *window, fan_in=inside * kernel**axes, gain=gain)
        return self.node(
            "Conv",
            value,
            weight,
            self.around(0.0, outputs),
            strides=[stride] * axes,
            pads=[kernel // 2] * 2 * axes,
            group=groups,
            kernel_shape=window,
        )

    def classified(self, value: str, channels: int, classes: int) -> str:
        """Add the mean of each channel of a map, and a product of these with random weights."""
        value = self.node("Flatten", self.node("GlobalAveragePool", value), axis=1)
        weight = self.weight(classes, channels, fan_in=channels)
        return self.node("Gemm", value, weight, self.around(0.0, classes), transB=1)

    def model(self, *ends: tuple[str, Sequence[int]]) -> onnx.ModelProto:
        """The model with these inputs and, last, this output, each a name and a shape."""
        from onnx import TensorProto, helper

        *sources, output = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(shape)) for n, shape in ends]
        graph = helper.make_graph(self._nodes, self._name, sources, [output], self._tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
