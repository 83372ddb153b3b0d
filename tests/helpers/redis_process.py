"""A real Redis for tests."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from services.embedded.net import accepts, free_port
from services.embedded.redis_server import config, find_server

PASSWORD = "only-for-tests"


def address(url: str) -> str:
    """Host and port of a server's URL."""
    return urlsplit(url).netloc.rpartition("@")[2]


@contextmanager
def redis_server(folder: Path, users: Sequence[str] = (), within: float = 20.0) -> Iterator[str]:
    """The URL of a server of its own, ended at the end. ``users``: lines instead of one user who may do anything."""
    port = free_port()
    process = subprocess.Popen([find_server(), "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        assert process.stdin is not None
        process.stdin.write(config(port, users or [f"user default on >{PASSWORD} ~* &* +@all"], folder))
        process.stdin.close()
        deadline = time.monotonic() + within
        while not accepts(port):
            assert process.poll() is None, "the Redis server ended"
            assert time.monotonic() < deadline, "the Redis server does not answer"
            time.sleep(0.02)
        yield f"redis://:{PASSWORD}@127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait(timeout=10)
