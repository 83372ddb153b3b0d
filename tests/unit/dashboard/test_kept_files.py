"""Files that never change are fetched once, and compressed once."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from services.dashboard.kept_files import PREFIX, KeptFiles

pytestmark = pytest.mark.parallel
TEXT = "const a = 1;\n" * 200
HEADERS = {"immutable": "public, max-age=31536000, immutable", "fresh": "no-store"}


def test_only_what_never_changes_is_kept() -> None:
    asked: list[str] = []

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        asked.append(name)
        answer = PlainTextResponse("no" if name == "gone" else TEXT, 404 if name == "gone" else 200)
        answer.headers["cache-control"] = HEADERS.get(name, HEADERS["immutable"])
        answer.set_cookie("session", str(len(asked)))
        return answer

    app = Starlette(routes=[Route("/{path:path}/{name}", file)])
    app.add_middleware(KeptFiles)
    client = TestClient(app)
    packed = [client.get(f"{PREFIX}x/immutable") for _ in range(3)]
    plain = client.get(f"{PREFIX}x/immutable", headers={"accept-encoding": "identity"})
    assert [answer.text for answer in (*packed, plain)] == [TEXT] * 4
    assert [answer.headers.get("content-encoding") for answer in (*packed, plain)] == ["gzip"] * 3 + [None]
    assert [int(answer.headers["content-length"]) for answer in (packed[2], plain)] == [
        pytest.approx(60, abs=40),
        len(TEXT),
    ]
    assert all(answer.headers["cache-control"] == HEADERS["immutable"] for answer in (*packed, plain))
    assert all("set-cookie" not in answer.headers for answer in (*packed, plain))
    assert asked == ["immutable"]
    for path in (f"{PREFIX}x/fresh", f"{PREFIX}x/gone", "/elsewhere/immutable", f"{PREFIX}x/immutable?a=1"):
        asked.clear()
        for _ in range(2):
            assert "set-cookie" in client.get(path).headers
        assert len(asked) == 2, path
    assert client.get(f"{PREFIX}x/gone").status_code == 404
    assert client.get(f"{PREFIX}x/immutable", headers={"range": "bytes=0-3"}).headers["set-cookie"]


def test_a_file_that_a_browser_cut_short_is_not_kept() -> None:
    asked: list[str] = []

    async def file(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        asked.append(scope["path"])
        headers = [(b"cache-control", HEADERS["immutable"].encode()), (b"content-length", b"%d" % len(TEXT))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        whole = len(asked) > 1
        body = TEXT.encode() if whole else TEXT[:100].encode()
        await send({"type": "http.response.body", "body": body, "more_body": not whole})

    client = TestClient(KeptFiles(file))
    client.get(f"{PREFIX}x/chart.js")
    assert [client.get(f"{PREFIX}x/chart.js").text for _ in range(2)] == [TEXT, TEXT]
    assert len(asked) == 2
