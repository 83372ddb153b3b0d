"""Clients that are too slow, over real sockets: they are let go, and what they left half done goes with them."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest
from coordinator_process import serving

pytestmark = pytest.mark.servers
WITHIN = 60.0
UPLOAD = (
    b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    b'Content-Length: 5000000\r\n\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.onnx"\r\n\r\nx'
)
HASTY = {"header_timeout": "1.5", "body_timeout": "1.5", "read_timeout": "1.5", "dashboard": "false"}


def until(holds: Callable[[], object]) -> None:
    """Polls: another process tells nobody when its state changes."""
    end = time.monotonic() + WITHIN
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def call(url: str, data: bytes, small: bool = False) -> socket.socket:
    parts = urlsplit(url)
    client = socket.socket()
    if small:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(WITHIN)
    client.connect((parts.hostname, parts.port))
    client.sendall(data)
    return client


def rest(client: socket.socket) -> bytes:
    """What comes until the server closes."""
    found = b""
    try:
        while data := client.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    finally:
        client.close()
    return found


def refusal(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    problem = json.loads(body)
    assert head.startswith(f"HTTP/1.1 {problem['status']} ".encode())
    return problem["status"], problem["code"]


def unfinished(folder: Path) -> list[Path]:
    return list((folder / "blobs").glob(".incoming-*"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[psutil.Process, str, Path]]:
    folder = tmp_path_factory.mktemp("slow")
    with serving(folder, **HASTY) as (process, url):
        yield psutil.Process(process.pid), url, folder


def test_half_requests_are_let_go_and_leave_nothing(served: tuple[psutil.Process, str, Path]) -> None:
    process, url, folder = served
    heads = [call(url, b"GET /v1/jobs HTTP/1.1\r\nHost: loc") for _ in range(20)]
    silent = [call(url, b"") for _ in range(5)]
    blank = call(url, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n")  # an answer, and then no further request
    bodies = [call(url, UPLOAD) for _ in range(20)]
    until(lambda: len(unfinished(folder)) == 20)
    assert httpx2.get(f"{url}/livez", timeout=WITHIN).status_code == 200
    assert [refusal(rest(client)) for client in heads] == [(408, "request_timeout")] * 20
    assert [refusal(rest(client)) for client in bodies] == [(408, "request_timeout")] * 20
    assert [rest(client) for client in silent] == [b""] * 5
    assert rest(blank).startswith(b"HTTP/1.1 200")
    until(lambda: not unfinished(folder))
    until(lambda: not [c for c in process.net_connections(kind="tcp") if c.status == psutil.CONN_ESTABLISHED])


def test_a_trickle_is_too_slow_however_steady(served: tuple[psutil.Process, str, Path]) -> None:
    _, url, folder = served
    head, body = call(url, b"GET /livez HTTP/1.1\r\n"), call(url, UPLOAD)
    for number in range(200):
        try:
            head.sendall(f"X-{number}: y\r\n".encode())
            body.sendall(b"x")
        except (BrokenPipeError, ConnectionResetError):
            break
        time.sleep(0.05)  # the fault itself: a client that is never silent for long
    else:
        raise AssertionError("a trickle is taken for ever")
    for client in (head, body):
        client.close()
    until(lambda: not unfinished(folder))


def test_a_reader_of_events_that_does_not_read_is_let_go(served: tuple[psutil.Process, str, Path]) -> None:
    process, url, folder = served
    job_id = httpx2.post(f"{url}/v1/jobs", json={"operator": "gemm:8x8x8:float32"}, timeout=WITHIN).json()["id"]
    with sqlite3.connect(folder / "tunesmith.db", timeout=WITHIN) as database:
        stored = database.execute("SELECT kind, data, created_at FROM events WHERE job_id = ?", (job_id,)).fetchone()
        rows = [(job_id, stored[0], json.dumps({"x": "y" * 50_000}), stored[2])] * 200
        database.executemany("INSERT INTO events (job_id, kind, data, created_at) VALUES (?, ?, ?, ?)", rows)
    database.close()
    ask = f"GET /v1/jobs/{job_id}/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    reader = call(url, ask.encode(), small=True)
    mine = reader.getsockname()[1]

    def held() -> bool:
        return any(c.raddr and c.raddr.port == mine for c in process.net_connections(kind="tcp"))

    until(held)
    until(lambda: not held())
    reader.close()


def test_what_is_no_http_is_refused_with_a_problem(served: tuple[psutil.Process, str, Path]) -> None:
    _, url, _ = served
    assert refusal(rest(call(url, b"nonsense\r\n\r\n"))) == (400, "bad_request")
    assert refusal(rest(call(url, b"GET /v1/\xff HTTP/1.1\r\nHost: a\r\n\r\n"))) == (400, "bad_request")
    assert refusal(rest(call(url, b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000))) == (
        431,
        "request_header_fields_too_large",
    )


Patient = tuple[subprocess.Popen[bytes], str, Path]


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    """A server that waits long for few clients; its last test kills it."""
    folder = tmp_path_factory.mktemp("patient")
    with serving(folder, dashboard="false", max_connections_per_address="5") as (process, url):
        yield process, url, folder


def test_nobody_has_more_connections_than_their_share(patient: Patient) -> None:
    _, url, _ = patient
    clients = [call(url, b"GET /livez HTTP/1.1\r\n") for _ in range(5)]
    until(lambda: rest(call(url, b"")).startswith(b"HTTP/1.1 503"))
    assert refusal(rest(call(url, b""))) == (503, "unavailable")
    for client in clients:
        client.close()

    def answers() -> bool:
        return rest(call(url, b"GET /livez HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200")

    until(answers)


def test_an_upload_that_a_kill_leaves_is_swept_at_the_next_start(patient: Patient) -> None:
    process, url, folder = patient
    client = call(url, UPLOAD)
    until(lambda: unfinished(folder))
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=20)
    client.close()
    assert unfinished(folder)
    with serving(folder, dashboard="false"):
        until(lambda: not unfinished(folder))
