"""Models by name: real architectures with random weights.

Some are built here, the others made from the ONNX package's test data. The package ships the graphs of known image
models with constants in place of the weights. Constants hide wrong results and give a compiler what no real model gives
it, so random weights take their place (He et al., "Delving deep into rectifiers", 2015: a variance of two over the
fan-in keeps the signal's size). A softmax at the end is cut off: on random weights it saturates, and the outputs of
every runtime would look alike.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.models import encoder, inverted_residual, r3d, resnext, unet, vit
from tunesmith.errors import InvalidInput, MissingDependency

if TYPE_CHECKING:
    import onnx

BUILT: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    "mobilenet": partial(inverted_residual.build, inverted_residual.MOBILENET),
    "encoder": encoder.build,
    "unet": unet.build,
    "resnext50": resnext.build,
    "efficientnet": partial(inverted_residual.build, inverted_residual.EFFICIENTNET),
    "unet3d": partial(unet.build, size=48, axes=3),
    "r3d18": r3d.build,
    "vit": vit.build,
}
"""Models that are built here, from a seed."""
FOLDER = "backend/test/data/light"
PREFIX = "light_"
SCALE, VARIANCE = 1, 4
"""Inputs of a batch normalisation that stay near one."""


def names() -> list[str]:
    """The models that are here."""
    shipped = (path.stem.removeprefix(PREFIX) for path in _folder().glob(f"{PREFIX}*.onnx"))
    return sorted((*BUILT, *shipped))


def write_model(name: str, path: Path, seed: int = 0) -> Path:
    """Write the model called ``name`` with random weights to ``path``.

    Raises:
        InvalidInput: there is none of that name.
        MissingDependency: the package onnx is not installed.
    """
    source = _folder() / f"{PREFIX}{name.removeprefix(PREFIX)}.onnx"
    if name not in BUILT and not source.is_file():
        known = f"there are {', '.join(names())}, or give a file"
        raise InvalidInput(f"there is no model {name!r}; {known}", field="model", value=name)
    import onnx

    onnx.save(BUILT[name](seed) if name in BUILT else _shipped(source, seed), path)
    return path


def model_file(model: str, folder: Path, seed: int) -> Path:
    """The file that is named, or one in ``folder`` of the model called so; raises like :func:`write_model`."""
    file = Path(model)
    return file.absolute() if file.is_file() else write_model(model, folder / "model.onnx", seed)


def _shipped(source: Path, seed: int) -> onnx.ModelProto:
    import onnx

    model = onnx.load(source)
    randomise(model, seed)
    return model


def randomise(model: onnx.ModelProto, seed: int) -> None:
    """Replace every floating-point weight by random values, as a true constant, and cut a final softmax off."""
    from onnx import helper, numpy_helper

    graph, rng = model.graph, np.random.default_rng(seed)
    shapes = dict(_weights(graph))
    uses = _uses(graph)
    keep = [tensor for tensor in graph.initializer if tensor.name not in shapes]
    made = [
        numpy_helper.from_array(_values(shape, uses.get(name, ("", 0)), rng), name) for name, shape in shapes.items()
    ]
    nodes = [node for node in graph.node if not set(node.output) & set(shapes)]
    read = {name for node in nodes for name in node.input}
    tensors = [tensor for tensor in (*keep, *made) if tensor.name in read]
    constant = {tensor.name for tensor in tensors}
    inputs = [value for value in graph.input if value.name in read - constant]
    if nodes[-1].op_type == "Softmax":
        last = nodes.pop()
        shown = graph.output[0].type.tensor_type
        kind, shape = shown.elem_type, [dim.dim_value for dim in shown.shape.dim]
        # Shape inference knows the rest; the softmax kept the shape.
        output = helper.make_tensor_value_info(last.input[0], kind, shape)
        del graph.output[:]
        graph.output.append(output)
    for field, content in (("node", nodes), ("initializer", tensors), ("input", inputs)):
        del getattr(graph, field)[:]
        getattr(graph, field).extend(content)
    model.ir_version = max(model.ir_version, 4)  # before, constants had to be inputs, which nothing may fold


def _folder() -> Path:
    spec = importlib.util.find_spec("onnx")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependency("models by name come from the package onnx: pip install -e '.[worker]'", extra="worker")
    return Path(spec.submodule_search_locations[0]) / FOLDER


def _weights(graph: onnx.GraphProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every floating-point constant with at least one axis."""
    from onnx import TensorProto, numpy_helper

    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.dims:
            yield tensor.name, tuple(tensor.dims)
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in tensors:
            yield node.output[0], tuple(int(dim) for dim in numpy_helper.to_array(tensors[node.input[0]]))


def _uses(graph: onnx.GraphProto) -> dict[str, tuple[str, int]]:
    """For each value its first reader and the place among that one's inputs; what only adds axes is looked through."""
    found: dict[str, tuple[str, int]] = {}
    for node in reversed(graph.node):
        for place, name in enumerate(node.input):
            found[name] = (node.op_type, place)
            if node.op_type == "Unsqueeze" and node.output[0] in found:
                found[name] = found[node.output[0]]
    return found


def _values(shape: tuple[int, ...], use: tuple[str, int], rng: np.random.Generator) -> NDArray[Any]:
    if len(shape) > 1:
        fan_in = int(np.prod(shape[1:]))
        values = rng.standard_normal(shape) * np.sqrt(2.0 / fan_in)
    elif use[0] == "Mul" or (use[0] == "BatchNormalization" and use[1] in (SCALE, VARIANCE)):
        values = rng.uniform(0.5, 1.5, shape)
    else:
        values = 0.1 * rng.standard_normal(shape)
    return np.asarray(values, dtype=np.float32)
