"""A user's file of records, read in a box: what comes out of it are claims, checked for form alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from db.blobs import BlobStore
from tunesmith import strict_json
from tunesmith.dataset.manifest import Manifest
from tunesmith.dataset.rows import Definition, Kind, RecordRow
from tunesmith.errors import InvalidInput, ModelRejected
from workers.core import claims
from workers.core.claims import DataType, Shape, Text, WorkloadHash
from workers.core.importing import Importing
from workers.sandbox.boxed import BadOutput, Box
from workers.tvm_backend.build.record_file import FILE, ROWS, workload_file

ROWS_BYTES = 1 << 30
LINE_BYTES = 64 << 20
MOST_GROUPS = 1_000_000
_RECORD, _DEFINITION = TypeAdapter(RecordRow), TypeAdapter(Definition)
_COUNT = TypeAdapter(Annotated[int, Field(ge=0, le=1 << 40)])


class _About(BaseModel):
    model_config = ConfigDict(extra="forbid")

    groups: Annotated[int, Field(ge=0, le=MOST_GROUPS)]
    manifest: dict[str, Any]


class _Workload(BaseModel):
    model_config = ConfigDict(extra="forbid")

    hash: WorkloadHash | Annotated[str, Field(max_length=0)]
    args: Annotated[list[tuple[DataType, Shape]], Field(max_length=10_000)]
    flops: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    family: Text


@dataclass(frozen=True)
class Described:
    """A workload as TVM describes its module; the columns of its row.

    Attributes:
        hash: hash of the module; empty where the module is none.
    """

    hash: str
    columns: dict[str, Any]


class RecordFile:
    """An open file; see :func:`opened`."""

    def __init__(self, importing: Importing, box: Box) -> None:
        self._importing, self._box = importing, box
        about = _answer(_About.model_validate, importing.ask(box, "open_records"))
        self.groups = about.groups
        self.manifest = Manifest.read(json.dumps(about.manifest))

    def rows(self, group: int) -> Iterator[Definition | RecordRow]:
        """The rows of a group. Raises InvalidInput where they have no proper form."""
        _answer(_COUNT.validate_python, self._importing.ask(self._box, "read_records", group))
        with self._box.output(ROWS, ROWS_BYTES) as file:
            while line := file.readline(LINE_BYTES + 1):
                if len(line) > LINE_BYTES:
                    raise InvalidInput(f"a row of the file has more than {LINE_BYTES} bytes", field="file")
                yield _row(line)


@contextmanager
def opened(importing: Importing, path: Path) -> Iterator[RecordFile]:
    """A user's file in a box.

    Raises:
        InvalidInput: no dataset, one that was changed, or one that cannot be read within the limits of an import.
    """
    try:
        with importing.open_box() as box:
            shutil.copyfile(path, box.folder / FILE)
            yield RecordFile(importing, box)
    except BadOutput as error:
        raise InvalidInput(f"the import gave an invalid result: {error}", field="file") from error
    except ModelRejected as error:  # the import's limits
        raise InvalidInput(error.detail, field="file") from error


def describe(importing: Importing, blobs: BlobStore, found: Sequence[Definition]) -> list[Described]:
    """What TVM says of workloads, from their modules alone, in a box that has seen nothing else."""
    names = [str(each.body["name"])[:200] for each in found]
    with importing.open_box() as box:
        for index, each in enumerate(found):
            (box.folder / workload_file(index, "module")).write_text(str(each.body["module"]), encoding="utf-8")
        kind = TypeAdapter(Annotated[list[_Workload], Field(min_length=len(found), max_length=len(found))])
        answer = _answer(kind.validate_python, importing.ask(box, "describe_workloads", names))
        described = []
        for index, (name, each) in enumerate(zip(names, answer, strict=True)):
            columns: dict[str, Any] = {"hash": each.hash, "name": name, "family": each.family[:100]}
            columns |= {"args": [[dtype, shape] for dtype, shape in each.args], "flops": each.flops}
            if each.hash:
                columns["module_blob"] = _stored(box, index, "module", blobs)
                columns["metaschedule_blob"] = _stored(box, index, "metaschedule", blobs)
            described.append(Described(each.hash, columns))
        return described


def _stored(box: Box, index: int, kind: str, blobs: BlobStore) -> str:
    with box.output(workload_file(index, kind), LINE_BYTES) as file:
        return blobs.put_bytes(file.read(LINE_BYTES))


def _answer(check: Any, answer: Any) -> Any:
    claims.done(answer)
    try:
        return check(answer["done"])
    except ValidationError as error:
        raise _odd(error) from error


def _row(line: bytes) -> Definition | RecordRow:
    try:
        value = json.loads(line)
        if "kind" in value:
            definition = _DEFINITION.validate_python(value)
            strict_json.check(definition.body, "file")
            if definition.kind is Kind.RECORD or not isinstance(definition.body, dict):
                raise ValueError("a definition without a body")
            return definition
        row = _RECORD.validate_python(value)
        for text in (row.workload, row.target, row.sketch, row.environment, row.precision, row.failure, row.stopped):
            strict_json.check_text((text or "")[:200], "file")
        return row
    except (ValidationError, ValueError, TypeError, RecursionError) as error:
        raise _odd(error) from error


def _odd(error: Exception) -> InvalidInput:
    return InvalidInput(f"a row of the file has no proper form: {str(error)[:300]}", field="file")
