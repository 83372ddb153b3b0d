"""The light models of the ONNX package with weights that prove something, and the measure of agreement.

Their shipped weights are constants (``ConstantOfShape``), under which every channel is the same. Here each becomes a
random initialiser, He-scaled so that signals neither vanish nor explode, and the model ends in logits, because a
softmax saturates and hides errors.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper

Array = NDArray[Any]
TOLERANCE = 1e-2


def light_model(name: str) -> Path:
    """The file of a light model, such as ``squeezenet``."""
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"


def randomised(name: str, path: Path, seed: int = 0) -> Path:
    """Write a light model with random weights and logits as its output to ``path``."""
    model = onnx.load(light_model(name))
    randomise(model, np.random.default_rng(seed))
    drop_softmax(model.graph)
    model.ir_version = 8  # before 4 every initialiser had to be an input, too
    onnx.save(model, path)
    return path


def randomise(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Replace every floating-point weight by random numbers of the same shape."""
    graph = model.graph
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    weights = {
        n.output[0]: tuple(int(d) for d in shapes[n.input[0]])
        for n in graph.node
        if n.op_type == "ConstantOfShape" and n.input[0] in shapes
    }
    weights |= {name: array.shape for name, array in shapes.items() if array.dtype == np.float32}
    roles = _roles(graph)
    kept = [n for n in graph.node if not (n.op_type == "ConstantOfShape" and n.output[0] in weights)]
    old = [t for t in graph.initializer if t.name not in weights]
    inputs = [i for i in graph.input if i.name not in weights]
    for field, values in ((graph.node, kept), (graph.initializer, old), (graph.input, inputs)):
        del field[:]
        field.extend(values)
    for name, shape in weights.items():
        array = _draw(rng, shape, roles.get(name, "weight")).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(array, name))


def _roles(graph: onnx.GraphProto) -> dict[str, str]:
    """What a weight is used for: the running variance must be positive, a factor near one keeps signals in range."""
    roles: dict[str, str] = {}
    uses: dict[str, list[str]] = {}
    source = {n.output[0]: n.input[0] for n in graph.node if n.op_type in ("Unsqueeze", "Reshape")}
    for node in graph.node:
        for name in node.input:
            uses.setdefault(source.get(name, name), []).append(node.op_type)
        if node.op_type == "BatchNormalization":
            roles |= dict(zip(node.input[1:5], ("factor", "shift", "shift", "variance"), strict=True))
    for name, ops in uses.items():
        if "Mul" in ops:
            roles.setdefault(name, "factor")
    return roles


def _draw(rng: np.random.Generator, shape: tuple[int, ...], role: str) -> Array:
    if role in ("factor", "variance"):
        return rng.uniform(0.8, 1.2, shape)
    if len(shape) < 2:
        return rng.normal(0.0, 0.1, shape)
    fan_in = math.prod(shape[1:]) if len(shape) > 2 else max(shape)
    return rng.normal(0.0, math.sqrt(2.0 / fan_in), shape)


def drop_softmax(graph: onnx.GraphProto) -> None:
    """Make the input of a final softmax the output."""
    last = next((n for n in graph.node if n.output[0] == graph.output[0].name), None)
    if last is not None and last.op_type == "Softmax":
        graph.node.remove(last)
        graph.output[0].name = last.input[0]


def random_inputs(path: Path, seed: int) -> dict[str, Array]:
    """Standard normal inputs of a model with static shapes."""
    rng = np.random.default_rng(seed)
    session = _session(path)
    return {i.name: rng.standard_normal(i.shape).astype(np.float32) for i in session.get_inputs()}


def reference(path: Path, inputs: dict[str, Array]) -> Array:
    """The first output by onnxruntime."""
    return references(path, inputs)[0]


def references(path: Path, *inputs: dict[str, Array]) -> list[Array]:
    """The first outputs for several inputs."""
    session = _session(path)
    return [np.asarray(session.run(None, values)[0]) for values in inputs]


def _session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def error(ours: Array, theirs: Array, other: Array) -> float:
    """max|ours - theirs(x)| / max|theirs(x) - theirs(x')|: the error seen against the signal, not against a constant.

    Raises:
        ValueError: when the outputs of two inputs are the same, or not finite: such a model proves nothing.
    """
    signal = float(np.abs(theirs - other).max())
    if not np.isfinite(theirs).all() or signal == 0 or not np.isfinite(signal):
        raise ValueError(f"the reference carries no signal: {signal}")
    return float(np.abs(ours.reshape(theirs.shape) - theirs).max()) / signal
