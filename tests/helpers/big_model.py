"""An ONNX model of a given size in one file, quick to make and to run: a chain of square products."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper


def chain(path: Path, width: int, layers: int = 3) -> Path:
    """``x`` float32 [1, width] to ``y`` of the same shape; 4·layers·width² bytes of weights, all different."""
    value = helper.make_tensor_value_info
    rng = np.random.default_rng(0)
    row = rng.standard_normal(2 * width, dtype=np.float32) / np.float32(np.sqrt(width / 2))
    nodes, weights, before = [], [], "x"
    for layer in range(layers):
        # A circulant matrix under a random column scale: full of different numbers, at the price of a copy.
        scale = rng.uniform(0.8, 1.2, width).astype(np.float32)
        matrix = np.lib.stride_tricks.sliding_window_view(row, width)[:width] * scale
        weights.append(helper.make_tensor(f"w{layer}", TensorProto.FLOAT, (width, width), matrix.tobytes(), raw=True))
        after = "y" if layer == layers - 1 else f"h{layer}"
        nodes.append(helper.make_node("Gemm", [before, f"w{layer}"], [f"g{layer}"], transB=1))
        nodes.append(helper.make_node("Relu", [f"g{layer}"], [after]))
        before = after
    graph = helper.make_graph(nodes, "chain", [value("x", TensorProto.FLOAT, [1, width])],
                              [value("y", TensorProto.FLOAT, [1, width])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path
