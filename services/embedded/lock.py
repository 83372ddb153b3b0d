"""One stack per data directory, held by ``flock`` so that ``kill -9`` frees it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tunesmith.errors import StackFailed

NAME = "up.lock"


@contextlib.contextmanager
def data_dir_lock(data_dir: Path, url: str) -> Iterator[None]:
    """Hold the data directory; the lock file says who does, and is gone afterwards.

    Raises:
        StackFailed: when another process holds it, or the directory cannot be written.
    """
    path = data_dir / NAME
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        fd = _acquire(path)
    except OSError as error:
        raise StackFailed(
            f"cannot use the data directory {data_dir}: {error.strerror}", field="data_dir", value=str(data_dir)
        ) from error
    try:
        os.ftruncate(fd, 0)
        os.write(fd, json.dumps({"pid": os.getpid(), "url": url}).encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held, so nobody else's file is removed
        os.close(fd)


def holder(data_dir: Path) -> dict[str, Any]:
    """``pid`` and ``url`` of the stack that holds a data directory, as far as they can be read."""
    try:
        found = json.loads((data_dir / NAME).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _acquire(path: Path) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise _held(path.parent) from None
        if _is_same_file(fd, path):
            return fd
        os.close(fd)  # its holder removed it between open and flock


def _is_same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _held(data_dir: Path) -> StackFailed:
    who = holder(data_dir)
    by = f"process {who['pid']} at {who['url']}" if {"pid", "url"} <= who.keys() else "another process"
    return StackFailed(
        f"{data_dir} is in use by {by}: use that one with --server, or give another --data-dir",
        field="data_dir",
        value=str(data_dir),
        holder=who,
    )
