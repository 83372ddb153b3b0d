"""Uploads: streamed, limited, and nothing half-made."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_fleet import Folder, Recorder
from starlette.testclient import TestClient

from db.models import Model
from services.coordinator.app import create_app
from services.coordinator.context import Context

pytestmark = pytest.mark.parallel

MAX_UPLOAD_BYTES = 300_000
BOUNDARY = b"b0undary"


@pytest.fixture
def app(tmp_path: Path, sqlite_url: str) -> Iterator[Any]:
    made = create_app(
        Folder(tmp_path, sqlite_url).settings(max_upload_bytes=MAX_UPLOAD_BYTES), publisher=Recorder(), run_loop=False
    )
    yield made
    made.state.context.dispose()


@pytest.fixture
def client(app: Any) -> TestClient:
    return TestClient(app, raise_server_exceptions=False)


def models(app: Any) -> list[Model]:
    context: Context = app.state.context
    with context.reading() as session:
        return list(session.query(Model))


def files(app: Any) -> list[Path]:
    return [path for path in app.state.context.blobs.directory.rglob("*") if path.is_file()]


def refused(app: Any, response: Any, status: int, code: str) -> None:
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert models(app) == []
    assert files(app) == []


def test_a_model_is_stored_by_its_content(app: Any, client: TestClient) -> None:
    data = bytes(range(256)) * 1000
    first = client.post("/v1/models", files={"file": ("net.onnx", data)}, data={"name": "net", "inputs": "x=1,3"})
    body = first.json()
    assert first.status_code == 201
    assert first.headers["location"] == f"/v1/models/{body['id']}"
    assert (body["state"], body["source"], body["size"]) == ("importing", "onnx", len(data))
    assert body["input_shapes"] == {"x": [1, 3]}
    assert body["sha256"] == hashlib.sha256(data).hexdigest()
    assert app.state.context.blobs.get_bytes(body["sha256"]) == data
    repeated = client.post(
        "/v1/models", files={"file": ("other.onnx", data)}, data={"inputs": json.dumps({"x": [1, 3]})}
    )
    assert (repeated.status_code, repeated.json()["id"]) == (200, body["id"])
    shaped = client.post("/v1/models", files={"file": ("net.onnx", data)}, data={"inputs": ["x=2,3", "y=4"]})
    assert shaped.status_code == 201
    assert shaped.json()["id"] != body["id"]
    assert shaped.json()["input_shapes"] == {"x": [2, 3], "y": [4]}
    assert len(files(app)) == 1
    archive = client.post("/v1/models", files={"file": ("net.pt2", b"PK")})
    assert archive.json()["source"] == "pt2"
    assert client.post("/v1/models", files={"file": ("net.JSON", b"{}")}).json()["source"] == "tvm"


def test_too_large_is_refused_before_and_while_it_comes(app: Any, client: TestClient) -> None:
    declared = client.post("/v1/models", files={"file": ("a.onnx", b"x" * (MAX_UPLOAD_BYTES + 10_000_000))})
    refused(app, declared, 413, "payload_too_large")
    slightly = client.post("/v1/models", files={"file": ("a.onnx", b"x" * (MAX_UPLOAD_BYTES + 1))})
    refused(app, slightly, 413, "payload_too_large")
    assert client.post("/v1/models", files={"file": ("a.onnx", b"x" * MAX_UPLOAD_BYTES)}).status_code == 201


@pytest.mark.parametrize(
    "request_",
    [
        {"json": {"file": "x"}},
        {"content": b"no form", "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": b"no boundary", "headers": {"content-type": "multipart/form-data"}},
        {"data": {"name": "only text"}, "files": {"other": ("", b"")}},
        {"files": {"file": ("empty.onnx", b"")}},
        {"files": [("file", ("a.onnx", b"1")), ("file", ("b.onnx", b"2"))]},
        {"files": {"file": ("a.onnx", b"1")}, "data": {"inputs": "x=none"}},
        {"files": {"file": ("a.onnx", b"1")}, "data": {"name": "x" * 100_000}},
    ],
)
def test_malformed_forms_leave_nothing(app: Any, client: TestClient, request_: dict[str, Any]) -> None:
    refused(app, client.post("/v1/models", **request_), 422, "invalid_input")


def head(name: str = "a.onnx") -> bytes:
    return b'--%b\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n\r\n' % (BOUNDARY, name.encode())


async def call(app: Any, chunks: AsyncIterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """One POST whose body's messages come from ``chunks``; the messages of the answer."""
    answer: list[dict[str, Any]] = []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/models",
        "raw_path": b"/v1/models",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"multipart/form-data; boundary=" + BOUNDARY)],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }

    async def send(message: dict[str, Any]) -> None:
        answer.append(message)

    await app(scope, lambda: anext(chunks), send)
    return answer


def test_a_client_that_goes_away_leaves_nothing(app: Any) -> None:
    async def chunks() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "http.request", "body": head() + b"x" * 100_000, "more_body": True}
        yield {"type": "http.disconnect"}

    anyio.run(call, app, chunks())
    assert models(app) == []
    assert files(app) == []


def test_a_form_that_ends_too_early_leaves_nothing(app: Any) -> None:
    async def chunks() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "http.request", "body": head() + b"x" * 1000, "more_body": False}

    answer = anyio.run(call, app, chunks())
    assert answer[0]["status"] == 422
    assert models(app) == []
    assert files(app) == []


def test_a_large_model_passes_with_flat_memory(tmp_path: Path, sqlite_url: str) -> None:
    app = create_app(Folder(tmp_path, sqlite_url).settings(), publisher=Recorder(), run_loop=False)
    piece = bytes(64 * 1024)
    pieces = 1600  # 100 MiB

    async def chunks() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "http.request", "body": head(), "more_body": True}
        for _ in range(pieces):
            yield {"type": "http.request", "body": piece, "more_body": True}
        yield {"type": "http.request", "body": b"\r\n--%b--\r\n" % BOUNDARY, "more_body": False}

    tracemalloc.start()
    try:
        answer = anyio.run(call, app, chunks())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer[0]["status"] == 201
    assert json.loads(answer[1]["body"])["size"] == pieces * len(piece)
    assert peak < 32 * 1024 * 1024
    assert len(files(app)) == 1
    app.state.context.dispose()
