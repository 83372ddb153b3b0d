"""What is to be tuned, from the object that a program has: a file or an operator spec that a server takes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunesmith.errors import InvalidInput
from tunesmith.sdk.calling import Calling

ACCEPTED = (
    "a torch.nn.Module with example inputs, a torch.export.ExportedProgram, an onnx.ModelProto, a tvm.IRModule, a "
    "tvm.tirx.PrimFunc, the path of an .onnx, .pt2 or .json file, or an operator spec such as gemm:512x512x512:float32"
)


@dataclass(frozen=True)
class Source:
    """A model as a server takes it.

    Attributes:
        model: path of a file, or an operator spec.
        inputs: static shapes by input, for dynamic ones.
        calling: how the model is called; None: by the names of its inputs, which the server finds out.
    """

    model: str
    inputs: dict[str, tuple[int, ...]]
    calling: Calling | None = None


def source(model: Any, inputs: Any, folder: Path) -> Source:
    """A model as a server takes it; a file is written to ``folder`` unless there is one.

    Only modules that are loaded already are asked whether the object is theirs: nothing is imported to find out.

    Raises:
        InvalidInput: it is no model, or the inputs do not go with it.
        ModelRejected: it cannot become a file.
    """
    if isinstance(model, str | os.PathLike):
        return Source(os.fspath(model), shapes(inputs))
    if is_a(model, "torch.nn", "Module"):
        from tunesmith.sdk import exporting

        path = folder / f"{_file_name(type(model).__name__)}.pt2"
        calling = exporting.export(model, inputs, path)
        return Source(str(path), {}, calling)
    if is_a(model, "torch.export", "ExportedProgram"):
        from tunesmith.sdk import exporting

        return Source(str(folder / "program.pt2"), shapes(inputs), exporting.save(model, folder / "program.pt2"))
    if is_a(model, "onnx", "ModelProto"):
        return Source(str(_written_onnx(model, folder)), shapes(inputs))
    if is_a(model, "tvm.ir", "IRModule") or is_a(model, "tvm.tirx", "PrimFunc"):
        return Source(str(_written_tvm(model, folder)), shapes(inputs))
    raise InvalidInput(f"cannot tune an object of type {type(model).__name__}; give {ACCEPTED}", field="model")


def is_a(value: Any, module: str, name: str) -> bool:
    """Whether a value is of a class in a module, which is not imported for this: it would be, if it were."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def shapes(inputs: Any) -> dict[str, tuple[int, ...]]:
    """Static shapes by name; a tensor stands for its shape.

    Raises:
        InvalidInput: naming what is none.
    """
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        raise InvalidInput(
            f"the inputs of a model that is no nn.Module are shapes by name, such as {{'x': (1, 3, 224, 224)}}, not "
            f"{type(inputs).__name__}",
            field="inputs",
            value=type(inputs).__name__,
        )
    return {str(name): _shape(str(name), each) for name, each in inputs.items()}


def _shape(name: str, given: Any) -> tuple[int, ...]:
    extents = getattr(given, "shape", given)
    try:
        found = tuple(int(extent) for extent in extents) if isinstance(extents, Sequence) else ()
    except (TypeError, ValueError):
        found = ()
    if not found or min(found) < 1:
        raise InvalidInput(
            f"the shape of input {name!r} is a sequence of whole numbers above 0, such as (1, 3, 224, 224), not "
            f"{str(given)[:100]}",
            field="inputs",
            value=str(given)[:100],
        )
    return found


def _written_onnx(model: Any, folder: Path) -> Path:
    path = folder / f"{_file_name(model.graph.name)}.onnx"
    try:
        path.write_bytes(model.SerializeToString())
    except ValueError as error:  # protobuf holds 2 GiB
        raise InvalidInput(f"the ONNX model cannot be written as one file: {error}", field="model") from error
    return path


def _written_tvm(model: Any, folder: Path) -> Path:
    """TVM's JSON and not its script, which is a program: to read it is to run it."""
    name = (getattr(model, "attrs", None) or {}).get("global_symbol") or type(model).__name__
    path = folder / f"{_file_name(str(name))}.json"
    path.write_text(str(sys.modules["tvm.ir"].save_json(model)), encoding="utf-8")
    return path


def _file_name(name: str) -> str:
    return re.sub(r"\W+", "-", name, flags=re.ASCII).strip("-")[:60] or "model"
