"""Models of one operator: what TVM makes of them once they are imported, and what onnxruntime does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from run_once import machine

from workers.tvm_backend.frontends import import_model

Array = NDArray[Any]


def write(
    path: Path,
    name: str,
    shape: Sequence[int],
    opset: int,
    attrs: Mapping[str, Any],
    given: Mapping[str, Array],
    inputs: Sequence[str],
    kind: int = TensorProto.FLOAT,
) -> Path:
    """A model of one node; ``given`` are constants."""
    value = helper.make_tensor_value_info
    node = helper.make_node(name, ["x", *inputs], ["y"], **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [value("x", kind, list(shape))],
        [value("y", kind, None)],
        [numpy_helper.from_array(array, key) for key, array in given.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def both(path: Path, shape: Sequence[int]) -> tuple[Array, Array]:
    """What TVM makes of it once it is imported, and onnxruntime."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (theirs,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return by_tvm(import_model.import_model(path, "onnx"), x), theirs


def by_tvm(module: tvm.IRModule, x: Array) -> Array:
    """The first output."""
    return all_by_tvm(module, x)[0]


def all_by_tvm(module: tvm.IRModule, x: Array) -> list[Array]:
    """Every output."""
    found = machine(module)["main"](tvm.runtime.tensor(x))
    return [np.asarray(each.numpy()) for each in ([found] if hasattr(found, "numpy") else found)]
