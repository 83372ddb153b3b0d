"""Calls of an object in boxes: each box is a fork of a warm template, with a folder of its own, and used once."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from workers.sandbox.box.base import Confinement, Limits
from workers.sandbox.box.entering import STDERR
from workers.sandbox.limits import STDERR_TAIL_BYTES
from workers.sandbox.pool import Actor
from workers.sandbox.process import Child
from workers.sandbox.template import Template

_PREFIX = "tunesmith-box-"
_PLAIN = re.compile(r"[\w-][\w.-]*")


class BadOutput(Exception):
    """A file that a box should have made is missing, no plain file, or too large."""


class Boxes:
    """Makes boxes for one actor. Use it in one thread, which lives as long as it does.

    Args:
        actor: what each box hosts; its template runs no one's code, so it is outside.
        walls: see ``Confinement``.
        hidden: see ``Confinement``.
    """

    def __init__(self, actor: Actor, walls: tuple[str, ...], hidden: tuple[Path, ...] = ()) -> None:
        self._walls, self._hidden = walls, hidden
        sweep()
        self._template = Template(actor.factory, actor.arguments, actor.env or {}, actor.start_timeout, memory=0)

    def begin(self) -> None:
        """Load the template without waiting for it."""
        self._template.begin()

    def open(self, limits: Limits) -> Box:
        """A box, for use in ``with``; its process starts with the first call."""
        return Box(self._template, limits, self._walls, self._hidden)

    def close(self) -> None:
        """End the template, and every box."""
        self._template.close()


class Box:
    """One process in a box. What it answers, and what lies in its folder, are claims of whoever sent the model.

    Attributes:
        folder: the box's folder; put files there before the first call.
    """

    def __init__(self, template: Template, limits: Limits, walls: tuple[str, ...], hidden: tuple[Path, ...]) -> None:
        # Never in the folder of a temporary folder's link: the box sees only the real one.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")).resolve()
        self._child = Child(template, 0, Confinement(self.folder, limits, walls, hidden))

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.stop()
        remove(self.folder)

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._child.pid

    def call(self, method: str, *arguments: Any, timeout: float) -> Any:
        """Call a method; the answer is JSON.

        Raises:
            ChildError: see ``workers.sandbox.process``. After a crash or a timeout the box is of no more use.
        """
        return self._child.call(method, arguments, timeout)

    @contextlib.contextmanager
    def output(self, name: str, most: int) -> Iterator[BinaryIO]:
        """A file of the box's, of ``most`` bytes at most.

        Raises:
            BadOutput: there is no such plain file, or it is larger.
        """
        if not _PLAIN.fullmatch(name):
            raise BadOutput(f"no name of an output: {name!r}")
        try:
            descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise BadOutput(f"{name}: {error.strerror}") from error
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > most:
                raise BadOutput(f"{name}: {found.st_size} bytes of type {stat.S_IFMT(found.st_mode):o}")
            yield file

    def said(self) -> str:
        """The end of what the process wrote to its standard error."""
        return captured_stderr(self.folder)


def captured_stderr(folder: Path) -> str:
    """The end of what a boxed process with that folder wrote to its standard error."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(folder / STDERR, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            file.seek(max(0, os.fstat(file.fileno()).st_size - STDERR_TAIL_BYTES))
            return file.read(STDERR_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""


def sweep() -> None:
    """Remove what the boxes of processes left that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not os.path.exists(f"/proc/{owner}"):
            remove(folder)


def remove(folder: Path) -> None:
    """Remove a box's folder, whatever rights its owner left us."""

    def allow(function: Any, path: str, _: Any) -> None:
        for each in (os.path.dirname(path), path):
            with contextlib.suppress(OSError):
                if not os.path.islink(each):
                    os.chmod(each, 0o700)
        with contextlib.suppress(OSError):
            function(path)

    shutil.rmtree(folder, onerror=allow)
    shutil.rmtree(folder, ignore_errors=True)
