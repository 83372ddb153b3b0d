"""Is this file a model? Answered from its outline, without any framework and without reading the weights."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import BinaryIO

from tunesmith.archives import check_contents
from tunesmith.errors import NotAModel, TruncatedModel

ONNX_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
"""ModelProto's fields and their wire types (onnx.proto)."""
GRAPH, OPSET_IMPORT = 7, 8
ZIP_MAGIC = b"PK\x03\x04"
KINDS = "an ONNX model (.onnx), a torch.export archive (.pt2) or TVM JSON (.json)"
TVM_START, TVM_KEYS = b"{", (b'"nodes"', b'"tvm_version"')
BLANKS = b" \t\r\n"
OUTLINE_BYTES = 4096
"""How far from an end of TVM JSON its keys are looked for."""


def source_of(name: str) -> str:
    """``pt2`` for the names of torch.export archives, ``tvm`` for those of TVM JSON, ``onnx`` for anything else."""
    return {".pt2": "pt2", ".json": "tvm"}.get(os.path.splitext(name.lower())[1], "onnx")


def source_by_content(path: Path) -> str:
    """The same by the first bytes, whatever the name."""
    with path.open("rb") as file:
        start = file.read(len(ZIP_MAGIC))
    return "pt2" if start == ZIP_MAGIC else "tvm" if start.lstrip(BLANKS)[:1] == TVM_START else "onnx"


def check_file(path: Path, source: str) -> None:
    """Refuse what cannot be a model of ``source`` (``onnx``, ``pt2`` or ``tvm``).

    Raises:
        NotAModel: the file is empty, or its bytes are those of something else.
        TruncatedModel: it begins like a model and ends too early.
    """
    if path.stat().st_size == 0:
        raise NotAModel(f"the file is empty; expected {KINDS}", field="file")
    checks = {"pt2": check_archive, "tvm": check_tvm}
    checks.get(source, check_onnx)(path)


def check_tvm(path: Path) -> None:
    """Look at both ends of TVM JSON. Raises NotAModel, TruncatedModel."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(OUTLINE_BYTES).lstrip(BLANKS)
        file.seek(max(0, size - OUTLINE_BYTES))
        end = file.read().rstrip(BLANKS)
    if not start.startswith(TVM_START) or TVM_KEYS[0] not in start:
        raise NotAModel("the file is no module or function of TVM: write it with tvm.ir.save_json", field="file")
    if not end.endswith(b"}") or TVM_KEYS[1] not in end:
        raise TruncatedModel(
            f"the file begins like TVM JSON and ends too early, after {size} bytes: write it again with "
            "tvm.ir.save_json",
            field="file",
            value=size,
        )


def check_onnx(path: Path) -> None:
    """Walk the top-level fields of a ModelProto. Raises NotAModel, TruncatedModel."""
    size = path.stat().st_size
    seen: set[int] = set()
    with path.open("rb") as file:
        while file.tell() < size:
            key = _varint(file)
            field, wire = (key >> 3, key & 7) if key is not None else (0, 0)
            if ONNX_FIELDS.get(field) != wire:
                if seen and key is None:
                    raise _truncated(size)
                raise NotAModel(f"the file is not an ONNX model; expected {KINDS}", field="file")
            value = _varint(file)
            if value is None or (wire == 2 and file.tell() + value > size):
                raise _truncated(size)
            if wire == 2:
                file.seek(value, os.SEEK_CUR)
            seen.add(field)
    if GRAPH not in seen or OPSET_IMPORT not in seen:
        raise _truncated(size)


def _truncated(size: int) -> TruncatedModel:
    return TruncatedModel(
        f"the file begins like an ONNX model and ends too early, after {size} bytes: copy or export it again",
        field="file",
        value=size,
    )


def _varint(file: BinaryIO) -> int | None:
    """A protobuf varint, or None when the file ends in it or it is too long."""
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None


def check_archive(path: Path) -> None:
    """Look at the table of contents of a ``.pt2`` file. Raises NotAModel, TruncatedModel, ModelRejected."""
    with path.open("rb") as file:
        if file.read(4) != ZIP_MAGIC:
            raise NotAModel("the file is not a torch.export archive (.pt2 is a zip file)", field="file")
    try:
        with zipfile.ZipFile(path) as archive:
            check_contents(archive, path.stat().st_size)
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise TruncatedModel(
            "the archive starts like a zip file but is truncated: copy or export it again", field="file"
        ) from error
    if not any(name.endswith(".json") for name in names):
        raise NotAModel("the archive contains no exported program (save it with torch.export.save)", field="file")
