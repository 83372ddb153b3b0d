"""One stack per data directory, held by ``flock`` so that ``kill -9`` frees it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunesmith.errors import StackFailed

NAME = "up.lock"


@dataclass(frozen=True)
class Holder:
    """What the lock file of a data directory says.

    Attributes:
        pid: the supervisor's process.
        url: URL of its coordinator.
        alive: False when the file is stale, because that process was killed.
    """

    pid: int
    url: str
    alive: bool


@contextlib.contextmanager
def data_dir_lock(data_dir: Path, url: str) -> Iterator[bool]:
    """Hold the data directory; the lock file says who does, and is gone afterwards.

    Yields True when the stack before this one was killed.

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
        killed = str(holder(data_dir).get("url", "")).startswith("http")  # a stack that ends removes the file
        os.ftruncate(fd, 0)
        os.write(fd, json.dumps({"pid": os.getpid(), "url": url}).encode())
        yield killed
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


def look(data_dir: Path) -> Holder | None:
    """Who holds a data directory, or was killed while it did; None when nobody does.

    Raises:
        StackFailed: a process holds it that is no stack of this user on this machine.
    """
    path = data_dir / NAME
    if not path.exists():
        return None
    said = holder(data_dir)
    pid, url = said.get("pid"), str(said.get("url", ""))
    if isinstance(pid, int) and _has_open(pid, path):
        return Holder(pid, url, alive=True)
    if not _is_held(path):
        return Holder(pid if isinstance(pid, int) else 0, url, alive=False)
    named = f"process {pid}" if pid else "no process"
    raise StackFailed(
        f"{path} is held by a process that is not a stack of yours on this machine (the file names {named}): it "
        "belongs to another user, or to another machine that shares the folder; stop it there",
        field="data_dir",
        value=str(data_dir),
    )


def _has_open(pid: int, path: Path) -> bool:
    """True when the process has the lock file open; otherwise its id belonged to a process that ended."""
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(entry.stat(), path.stat()):
                    return True
    return False


def _is_held(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StackFailed(
            f"cannot read {path}: {error.strerror}; it belongs to another user",
            field="data_dir",
            value=str(path.parent),
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


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
        os.close(fd)  # the holder removed it between open and flock


def _is_same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _held(data_dir: Path) -> StackFailed:
    who = holder(data_dir)
    by = f"process {who['pid']} at {who['url']}" if {"pid", "url"} <= who.keys() else "another process"
    return StackFailed(
        f"{data_dir} is in use by {by}: use that one with --server, end it with 'tunesmith down', or give another "
        "--data-dir",
        field="data_dir",
        value=str(data_dir),
        holder=who,
    )
