"""What a browser is told and may do, on every page, file and socket of a real coordinator that asks for keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from coordinator_process import coordinator
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

pytestmark = pytest.mark.servers
KEY = {"authorization": "Bearer the-first-key"}
SOCKET = "/_nicegui_ws/socket.io/?EIO=4"
FOREIGN = "http://evil.example"
PATHS = (
    "/",
    "/login",
    "/login?next=/jobs/x",
    "/login/enter?ticket=wrong",
    "/jobs/nobody",
    "/jobs/nobody/best/jsonl",
    "/no-such-page",
    f"{SOCKET}&transport=polling",
    "/livez",
    "/readyz",
    "/metrics",
    "/docs",
    "/docs/swagger-ui.css",
    "/openapi.json",
    "/v1/jobs",
    "/v1/nothing",
    "/v1/blobs/" + "0" * 64,
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("browser")
    with coordinator(folder, admin_key="the-first-key") as address:
        yield address


@pytest.fixture(scope="module")
def page(url: str) -> str:
    """The login page's text."""
    return httpx2.get(f"{url}/login", timeout=30).text


def check(answer: httpx2.Response) -> None:
    """The headers that every answer has."""
    headers = answer.headers
    assert headers["x-content-type-options"] == "nosniff", answer.url
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert not [name for name in headers if name.startswith("access-control-")]
    for cookie in headers.get_list("set-cookie"):
        assert {"httponly", "samesite=lax"} <= {part.strip().lower() for part in cookie.split(";")}


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_headers(url: str, path: str) -> None:
    for headers in ({}, KEY, {**KEY, "origin": url}):
        answer = httpx2.get(url + path, headers=headers, timeout=30)
        assert answer.status_code != 500
        check(answer)
    refused = httpx2.get(url + path, headers={**KEY, "origin": FOREIGN}, timeout=30)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    check(refused)


def test_files_of_the_pages_have_the_headers(url: str, page: str) -> None:
    files = set(re.findall(r'(?:src|href)="(/_nicegui/[^"]+)"', page)) | set(re.findall(r'"(/_nicegui/[^"]+)"', page))
    assert len(files) > 3
    for file in sorted(files)[:20]:
        answer = httpx2.get(url + file, timeout=30)
        check(answer)


def test_only_scripts_of_the_template_may_run(url: str) -> None:
    nonces = set()
    for _ in range(2):
        answer = httpx2.get(f"{url}/login", timeout=30)
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        nonce = re.search(r"'nonce-([^']+)'", policy["script-src"])
        assert nonce is not None
        nonces.add(nonce[1])
        assert "'unsafe-inline'" not in policy["script-src"]
        assert policy["default-src"] == policy["connect-src"] == "'self'"
        scripts = re.findall(r"<script[^>]*>", answer.text)
        assert len(scripts) > 5
        assert all(f'nonce="{nonce[1]}"' in script for script in scripts)
        assert not re.findall(r"<[a-z]+[^>]*\son[a-z]+=", answer.text), "event handlers would be refused"
    assert len(nonces) == 2


def test_cookies_are_secure_behind_tls(url: str) -> None:
    plain = httpx2.get(f"{url}/login", timeout=30).headers.get_list("set-cookie")
    assert plain
    assert not any("secure" in cookie.lower() for cookie in plain)
    behind = httpx2.get(f"{url}/login", headers={"x-forwarded-proto": "https"}, timeout=30).headers
    assert all(cookie.endswith("; Secure") for cookie in behind.get_list("set-cookie"))


def test_the_socket_is_for_our_own_pages(url: str) -> None:
    socket = url.replace("http", "ws", 1) + SOCKET + "&transport=websocket"
    for origin in (FOREIGN, "null", url.replace("127.0.0.1", "localhost"), f"{url}0"):
        with pytest.raises(InvalidStatus) as refused, connect(socket, origin=origin, open_timeout=30):  # type: ignore[arg-type]
            pass
        assert refused.value.response.status_code == 403
    with connect(socket, origin=url, open_timeout=30) as opened:  # type: ignore[arg-type]
        assert opened.recv(timeout=30).startswith("0{")  # type: ignore[arg-type]
    posted = httpx2.post(f"{url}{SOCKET}&transport=polling&sid=x", headers={"origin": FOREIGN}, timeout=30)
    assert posted.status_code == 403
