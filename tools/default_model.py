"""Print the path of the model that ``make tune`` tunes by default: SqueezeNet 1.0 with seeded random weights.

The package onnx ships the graph with weights that are all equal: its outputs are the same for every input, so that a
comparison of outputs finds no wrong schedule. The weights written here are uniform with He's variance, ``2 / fan_in``
(He et al., Delving Deep into Rectifiers, 2015), which keeps the signal's size from layer to layer. The file lies in the
virtual environment and goes with it.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from pathlib import Path
from typing import Any

GRAPH = "backend/test/data/light/light_squeezenet.onnx"
NAME = "squeezenet-random.onnx"
SEED = 0
LAST = "conv10"
"""The last convolution, whose outputs a softmax makes probabilities of."""
GAIN = 0.25
"""Factor of that one's weights: with 1 a single class gets all of the probability, whatever the input."""


def main() -> int:
    """Write the file where it is missing, and print its path."""
    path = Path(sys.prefix) / "share" / "tunesmith" / NAME
    if not path.exists():
        spec = importlib.util.find_spec("onnx")
        if spec is None or not spec.submodule_search_locations:
            print("the package onnx is missing: run 'make venv'", file=sys.stderr)
            return 1
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(content(Path(spec.submodule_search_locations[0]) / GRAPH))
        partial.replace(path)
    print(path)
    return 0


def content(graph: Path, seed: int = SEED) -> bytes:
    """The model's bytes, the same for the same seed.

    Args:
        graph: an ONNX file whose weights are made by ``ConstantOfShape``.
    """
    import numpy as np
    import onnx

    model = onnx.load(graph)
    shapes = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    random = np.random.RandomState(seed)  # the numbers are the same in every version of NumPy
    made = {
        node.output[0]: _weights(random, node.output[0], shapes[node.input[0]].tolist())
        for node in model.graph.node
        if node.op_type == "ConstantOfShape"
    }
    sizes = {node.input[0] for node in model.graph.node if node.op_type == "ConstantOfShape"}
    _keep(model.graph.node, lambda node: node.op_type != "ConstantOfShape")
    _keep(model.graph.initializer, lambda tensor: tensor.name not in sizes)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in made.items())
    # Only data are inputs: a weight that is one, too, could be replaced at each run, and nobody may fold it.
    weights = {tensor.name for tensor in model.graph.initializer} | sizes
    _keep(model.graph.input, lambda value: value.name not in weights)
    model.ir_version = 7
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _weights(random: Any, name: str, shape: list[int]) -> Any:
    """Uniform weights of a convolution, ``shape`` being output channels, input channels and a window; or a bias."""
    fan_in = math.prod(shape[1:]) if len(shape) > 1 else shape[0]
    limit = math.sqrt(6.0 / fan_in) * (GAIN if name.startswith(LAST) else 1.0)
    return ((2.0 * random.random_sample(shape) - 1.0) * limit).astype("float32")


def _keep(field: Any, wanted: Any) -> None:
    """Drop the elements of a repeated protobuf field that are not wanted."""
    left = [element for element in field if wanted(element)]
    del field[:]
    field.extend(left)


if __name__ == "__main__":
    sys.exit(main())
