"""Models into Relax: one door for every source, and typed refusals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tvm

from tunesmith.errors import InvalidInput, NotAModel
from workers.tvm_backend.frontends import sizes
from workers.tvm_backend.frontends.onnx import reader as onnx
from workers.tvm_backend.frontends.operator_module import operator_module
from workers.tvm_backend.frontends.torch import reader as torch
from workers.tvm_backend.frontends.tvm_json import reader as tvm_json

__all__ = ["import_model", "operator_module"]

Shapes = Mapping[str, tuple[int, ...]]


def import_model(path: str | Path, source: str, inputs: Shapes | None = None) -> tvm.IRModule:
    """Import a model file.

    Args:
        path: the file.
        source: ``onnx``, ``pt2`` or ``tvm``.
        inputs: static shapes by input name, for inputs with dynamic dimensions.

    Returns:
        A module whose ``main`` takes the model's inputs in their order (attribute ``num_input``).

    Raises:
        NotAModel, TruncatedModel, UnsupportedOperator, DynamicShape, ModelRejected: as their names say.
        MissingDependency: a ``.pt2`` file and no torch.
        InvalidInput: an unknown source, or a shape for an input that the model does not have.
    """
    readers = {"onnx": onnx.read, "pt2": torch.read, "tvm": tvm_json.read}
    if source not in readers:
        raise InvalidInput(
            f"a model's source is one of {', '.join(readers)}, not {source!r}", field="source", value=source
        )
    path = Path(path)
    if path.stat().st_size == 0:
        raise NotAModel("the file is empty", field="file")
    mod = readers[source](path, dict(inputs or {}))
    sizes.check_module(mod)
    return mod
