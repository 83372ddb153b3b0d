"""Whether blobs and database take writes, found out by writing; often asked, seldom done."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from db.engine import create_engine, probe

BYTES = 16 * 1024
EVERY_SECONDS = 1.0
"""A verdict serves everybody who asks within this time."""
PROBE_WAIT_SECONDS = 2.0
"""Seconds that the probe waits for a writer; who waits longer has no database that takes writes."""


class Verdict:
    """The outcome of a check, kept for ``EVERY_SECONDS``; one thread looks, the others wait for what it finds.

    Args:
        check: raises what is wrong.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check, self._lock = check, threading.Lock()
        self._looked = float("-inf")
        self._error: Exception | None = None

    def __call__(self) -> None:
        """Raises what the check raised."""
        with self._lock:
            if time.monotonic() - self._looked > EVERY_SECONDS:
                self._error = None
                try:
                    self._check()
                except Exception as error:  # handed on to everybody who asks
                    self._error = error.with_traceback(None)
                self._looked = time.monotonic()
            if self._error is not None:
                raise self._error


class Probes:
    """Writes a little where the service writes.

    Args:
        url: the database's URL.
        directory: folder of the blobs.
    """

    def __init__(self, url: str, directory: Path) -> None:
        self._engine = create_engine(url, pool_size=1, overflow=0, patience=PROBE_WAIT_SECONDS)
        self._directory = directory
        self.database = Verdict(lambda: probe(self._engine))
        self.blobs = Verdict(self._write)

    def _write(self) -> None:
        """A file as a blob is written, through to the disk."""
        with tempfile.TemporaryFile(dir=self._directory) as file:  # without a name: nothing can stay
            file.write(os.urandom(BYTES))  # nothing that a file system could leave out
            file.flush()
            os.fsync(file.fileno())

    def dispose(self) -> None:
        """Close the connection."""
        self._engine.dispose()
