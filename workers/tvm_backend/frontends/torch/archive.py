"""``torch.export`` archives into programs, without running what is in them.

``torch.export.load`` unpickles sample inputs and other parts, without limits on what the pickles do. Here these parts
are left out, and tensors are read from their bytes or by PyTorch's unpickler of weights alone.
"""

from __future__ import annotations

import importlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

from tunesmith.archives import check_contents
from tunesmith.errors import ModelRejected, NotAModel
from tunesmith.model_limits import MAX_PROGRAM_BYTES, MAX_RANK, MAX_TENSOR_BYTES
from workers.tvm_backend.frontends import sizes
from workers.tvm_backend.frontends.torch import program

PROGRAM, OLD_PROGRAM = "models/model.json", "serialized_exported_program.json"
FOLDERS = {"weights": "data/weights", "constants": "data/constants"}
OLD = {"weights": "serialized_state_dict.pt", "constants": "serialized_constants.pt"}
OBJECTS = ("custom_obj_", "opaque_obj_")

Tensors = dict[str, Any]


def load(path: Path) -> Any:
    """The ``torch.export.ExportedProgram`` of an archive.

    Raises:
        NotAModel: there is no program in it.
        ModelRejected: it holds what would be run, or does not hold what it says.
        UnsupportedOperator: operators that are none of PyTorch's own.
    """
    serialize = importlib.import_module("torch._export.serde.serialize")
    with zipfile.ZipFile(path) as archive:
        found = _Archive(archive, path.stat().st_size)
        checked = program.checked(found.program())
        weights, constants = found.tensors("weights"), found.tensors("constants")
    return serialize.ExportedProgramDeserializer(None).deserialize(checked, weights, constants)


class _Archive:
    """What is read of an archive: the program and its tensors."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        check_contents(archive, size)
        self.archive = archive
        self.sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        first = next(iter(self.sizes), "")
        self.old = OLD_PROGRAM in self.sizes
        self.root = "" if self.old else first.split("/")[0] + "/"
        self.unfolding = sizes.Unfolding()

    def program(self) -> Any:
        """The parsed description."""
        return self._json(OLD_PROGRAM if self.old else PROGRAM)

    def tensors(self, kind: str) -> Tensors:
        """``weights`` or ``constants`` by name."""
        whole = OLD[kind] if self.old else f"{FOLDERS[kind]}/model.pt"  # PyTorch before 2.9
        if self.root + whole in self.sizes:
            return self._unpickled_all(whole)
        if self.old:
            return {}
        folder = FOLDERS[kind]
        config = self._json(f"{folder}/model_{kind}_config.json")["config"]
        storages: Tensors = {}
        return {name: self._tensor(folder, name, payload, storages) for name, payload in config.items()}

    def _json(self, name: str) -> Any:
        if self.root + name not in self.sizes:
            raise NotAModel(
                f"the archive has no {name}: it holds no exported program (save it with torch.export.save)",
                field="file",
            )
        if self.sizes[self.root + name] > MAX_PROGRAM_BYTES:
            raise ModelRejected(
                f"{name} has {self.sizes[self.root + name]} bytes; up to {MAX_PROGRAM_BYTES} are accepted",
                field="file",
                limit=MAX_PROGRAM_BYTES,
            )
        try:
            return json.loads(self.archive.read(self.root + name))
        except RecursionError as error:
            raise ModelRejected(f"{name} is nested too deeply", field="file") from error

    def _storage(self, name: str) -> Any:
        """An entry's bytes as a tensor, read once and without a copy."""
        torch = importlib.import_module("torch")
        if self.root + name not in self.sizes:
            raise ModelRejected(f"the archive lacks {name}, which it refers to; save it again", field="file")
        content = torch.empty(self.sizes[self.root + name], dtype=torch.uint8)
        view, at = memoryview(content.numpy()), 0
        with self.archive.open(self.root + name) as file:
            while at < len(view) and (count := file.readinto(view[at:])):  # type: ignore[attr-defined]
                at += count
        if at != len(view):
            raise ModelRejected(f"{name} ends too early; copy or save the archive again", field="file")
        return content

    def _tensor(self, folder: str, name: str, payload: Any, storages: Tensors) -> Any:
        torch = importlib.import_module("torch")
        entry = str(payload["path_name"])
        if entry.startswith(OBJECTS):
            raise ModelRejected(
                f"the program has an object {name[:200]!r} that is no tensor; export it without",
                field="file",
                value=name[:200],
            )
        if payload["use_pickle"]:
            return self._is_small(name, self._unpickled(f"{folder}/{entry}"))
        meta = payload["tensor_meta"]
        kind = importlib.import_module("torch._export.serde.serialize").deserialize_scalar_type(meta["dtype"])
        shape, stride = _extents(name, meta["sizes"]), _extents(name, meta["strides"])
        held = self.sizes.get(f"{self.root}{folder}/{entry}", 0)
        self.unfolding.add(f"tensor {name[:200]!r}", shape, 8 * kind.itemsize, held)
        if held == 0:
            made = torch.zeros(shape, dtype=kind)
        else:
            if entry not in storages:
                storages[entry] = self._storage(f"{folder}/{entry}")
            offset = _extents(name, [meta["storage_offset"]])[0]
            last = offset + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
            if min(shape, default=1) and (last + 1) * kind.itemsize > held:
                raise ModelRejected(
                    f"tensor {name[:200]!r} reaches beyond its {held} bytes; save the archive again",
                    field="file",
                    value=name[:200],
                )
            # No view: PyTorch's own operators refuse some things of views.
            made = torch.empty(0, dtype=kind).set_(storages[entry].untyped_storage(), offset, shape, stride)
        if not payload["is_param"]:
            return made
        return torch.nn.Parameter(made, requires_grad=bool(meta["requires_grad"]))

    def _is_small(self, name: str, tensor: Any) -> Any:
        torch = importlib.import_module("torch")
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise ModelRejected(
                f"the program's {name[:200]!r} is no plain tensor; export it without", field="file", value=name[:200]
            )
        held = tensor.untyped_storage().nbytes()
        self.unfolding.add(f"tensor {name[:200]!r}", list(tensor.shape), 8 * tensor.element_size(), held)
        return tensor

    def _unpickled(self, name: str) -> Any:
        """What a pickle of tensors holds; classes and functions in it are refused by PyTorch."""
        torch = importlib.import_module("torch")
        content = io.BytesIO(self._storage(name).numpy())
        try:
            with zipfile.ZipFile(content) as inner:
                check_contents(inner, len(content.getbuffer()))
            content.seek(0)
            return torch.load(content, map_location="cpu", weights_only=True)
        except ModelRejected:
            raise
        except Exception as error:
            # Whatever the pickle makes the unpickler raise; its own message proposes to run the pickle.
            raise ModelRejected(
                f"{name} holds more than tensors, and is not read: {type(error).__name__}; export the "
                "model with plain tensors",
                field="file",
                value=name,
            ) from error

    def _unpickled_all(self, name: str) -> Tensors:
        found = self._unpickled(name) if self.sizes[self.root + name] else {}
        if not isinstance(found, dict):
            raise ModelRejected(f"{name} is no table of tensors", field="file", value=name)
        return {str(key): self._is_small(str(key), each) for key, each in found.items()}


def _extents(name: str, values: Any) -> list[int]:
    """Numbers of a shape as PyTorch writes them, ``{"as_int": 3}``."""
    given = [each.get("as_int") if isinstance(each, dict) else None for each in values[: MAX_RANK + 1]]
    found = [each for each in given if type(each) is int and 0 <= each <= MAX_TENSOR_BYTES]
    if len(found) != len(given):
        raise ModelRejected(f"tensor {name[:200]!r} has extents that are no numbers: {str(values)[:200]}", field="file")
    return found
