"""How a process enters its box."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
from pathlib import Path

from workers.sandbox import limits
from workers.sandbox.box import filter as call_filter
from workers.sandbox.box import syscalls
from workers.sandbox.box.base import Confinement
from workers.sandbox.box.walls import WALLS

STDERR = ".stderr"
"""What the process says, in its folder: nothing of it gets into the service's log unasked."""


def enter(confinement: Confinement, keep: tuple[int, ...]) -> None:
    """Give up everything except what the confinement leaves, for good. Call it in a fork that has one thread.

    Standard output and error go to a file in the folder, other descriptors than ``keep`` are closed. The
    parent-death signal is lost where the process takes another user id: ask for it afterwards.

    Raises:
        OSError: a wall is not there. The process is half-way in and must end.
    """
    os.chdir(confinement.folder)
    _redirect()
    syscalls.close_others(keep)
    _limit(confinement)
    for name in confinement.walls:
        WALLS[name]().enter(confinement)
    if confinement.walls:
        syscalls.drop_capabilities()
        call_filter.enter(confinement)
    os.umask(0o077)
    os.environ.update(HOME=str(confinement.folder), TMPDIR=str(confinement.folder))
    tempfile.tempdir = None


def _redirect() -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    words = os.open(STDERR, flags, 0o600)
    for descriptor in (1, 2):
        os.dup2(words, descriptor)
    os.close(words)


def _limit(confinement: Confinement) -> None:
    given = confinement.limits
    limits.restrict(given.memory)
    if given.memory and not confinement.devices:
        _lower(resource.RLIMIT_AS, limits.address_space() + given.memory)
    if given.cpu_seconds:
        _lower(resource.RLIMIT_CPU, given.cpu_seconds)
    _lower(resource.RLIMIT_FSIZE, given.file_bytes)
    _lower(resource.RLIMIT_NOFILE, given.open_files)
    _lower(resource.RLIMIT_NPROC, _tasks() + given.tasks)


def _lower(kind: int, value: int) -> None:
    """Set a limit for good, to no more than it was."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _tasks() -> int:
    """Threads that this user has already: the kernel counts them all together."""
    user, count = os.geteuid(), 0
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with contextlib.suppress(OSError):  # it has just ended
                if path.stat().st_uid == user:
                    count += len(list((path / "task").iterdir()))
    return count
