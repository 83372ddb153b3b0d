"""Multipart uploads, streamed into the blob store: never whole in memory, never a second copy on disk.

The framework's own form parser spools files to the temporary folder first, which may be memory, and copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from db.blobs import BlobStore, BlobWriter
from services.coordinator.limits import announced
from tunesmith import strict_json
from tunesmith.errors import InvalidInput, PayloadTooLarge

MAX_FIELD_BYTES = 64 * 1024
MAX_FIELDS = 100
FLUSH_BYTES = 1 << 20


def form(description: str, **fields: Any) -> dict[str, Any]:
    """What the OpenAPI document says of a form with one file.

    Args:
        description: description of the file.
        fields: schemas of the text fields, by name.
    """
    file = {"type": "string", "format": "binary", "minLength": 1, "description": description}
    schema = {
        "type": "object",
        "required": ["file"],
        "additionalProperties": False,
        "properties": {"file": file, **fields},
    }
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


@dataclass
class Upload:
    """A received form: its text fields by name, in order, and the one file, by then a blob."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    filename: str = ""
    sha256: str = ""
    size: int = 0

    def first(self, name: str) -> str:
        """The first value of a field, or nothing."""
        return (self.fields.get(name) or [""])[0]


class _Form:
    """Callbacks of the parser. File data is kept until :meth:`take`, at most some chunks of it."""

    def __init__(self) -> None:
        self.upload = Upload()
        self.has_file = False
        self._headers: dict[bytes, bytes] = {}
        self._name, self._value = bytearray(), bytearray()
        self._field: str | None = None
        self._text = bytearray()
        self._file_data = bytearray()
        self._fields = 0
        self.finished = False

    def callbacks(self) -> dict[str, object]:
        """By the names that the parser wants."""
        return {
            "on_part_begin": self._begin,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_header_field": lambda data, start, end: self._name.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._header,
            "on_headers_finished": self._headers_done,
            "on_end": self._done,
        }

    def take(self) -> bytes:
        """File data received since the last call."""
        data = bytes(self._file_data)
        self._file_data.clear()
        return data

    @property
    def waiting(self) -> int:
        """Bytes of file data that :meth:`take` would give."""
        return len(self._file_data)

    def _begin(self) -> None:
        self._headers.clear()
        self._text.clear()
        self._field = None

    def _header(self) -> None:
        self._headers[bytes(self._name).lower()] = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _headers_done(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = _text(options.get(b"name", b""), "name of a part")
        if b"filename" in options or name == "file":
            if self.has_file:
                raise InvalidInput("send one file per request", field="file")
            self.has_file = True
            self.upload.filename = _text(options.get(b"filename", b""), "filename")
            return
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise InvalidInput(f"the form has more than {MAX_FIELDS} fields", field=name)
        self._field = name

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self._file_data += data[start:end]
            return
        self._text += data[start:end]
        if len(self._text) > MAX_FIELD_BYTES:
            raise InvalidInput(f"the field is longer than {MAX_FIELD_BYTES} bytes", field=self._field)

    def _end(self) -> None:
        if self._field is not None:
            self.upload.fields.setdefault(self._field, []).append(_text(self._text, self._field))

    def _done(self) -> None:
        self.finished = True


def _text(data: bytes | bytearray, field: str) -> str:
    """A text of the form. Raises InvalidInput when it is none that a database holds."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"the {field} is not UTF-8", field=field) from None
    strict_json.check_text(text, field)
    return text


async def receive(request: Request, blobs: BlobStore, limit: int, check: Callable[[Upload], None]) -> Upload:
    """Read a ``multipart/form-data`` request with one file into the blob store.

    Nothing stays behind when the client goes away, the body is malformed, the file is too large or ``check``,
    which sees the form before the file is kept, raises.

    Raises:
        PayloadTooLarge: the file has more than ``limit`` bytes.
        InvalidInput: not a form, or a form without a file.
    """
    form = _Form()
    parser = _parser(request, form)
    declared = announced(request.headers.get("content-length", ""))
    if declared > limit + MAX_FIELDS * MAX_FIELD_BYTES:
        raise _too_large(limit, declared)
    writer = blobs.writer()
    await run_in_threadpool(writer.__enter__)
    try:
        await _pump(request, parser, form, writer, limit)
        form.upload.sha256, form.upload.size = writer.sha, writer.size
        await run_in_threadpool(check, form.upload)
    except BaseException as error:  # a cancelled request must release the file, too
        await run_in_threadpool(writer.__exit__, type(error), error, None)
        if isinstance(error, FormParserError):
            raise InvalidInput(f"the form is malformed: {error}", field="file") from error
        if isinstance(error, ClientDisconnect):
            raise InvalidInput("the client disconnected during the upload", field="file") from error
        raise
    await run_in_threadpool(writer.__exit__, None, None, None)
    return form.upload


def _parser(request: Request, form: _Form) -> MultipartParser:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise InvalidInput("send the file as multipart/form-data with a part `file`", field="file")
    try:
        return MultipartParser(options[b"boundary"], form.callbacks())  # type: ignore[arg-type]
    except FormParserError as error:  # the boundary is too long
        raise InvalidInput(f"the form is malformed: {error}", field="file") from error


async def _pump(request: Request, parser: MultipartParser, form: _Form, writer: BlobWriter, limit: int) -> None:
    async for chunk in request.stream():
        parser.write(chunk)
        if writer.size + form.waiting > limit:
            raise _too_large(limit, writer.size + form.waiting)
        if form.waiting >= FLUSH_BYTES:
            await run_in_threadpool(writer.write, form.take())
    parser.finalize()
    if form.waiting:
        await run_in_threadpool(writer.write, form.take())
    if not form.finished or not form.has_file:
        raise InvalidInput("the form has no complete part `file`", field="file")
    if not writer.size:
        raise InvalidInput("the file is empty", field="file")


def _too_large(limit: int, size: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"the file is larger than {limit} bytes; TUNESMITH_MAX_UPLOAD_BYTES raises the limit",
        field="file",
        value=size,
        limit=limit,
    )
