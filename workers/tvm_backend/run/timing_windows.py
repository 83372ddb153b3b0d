"""Timing windows: when a kernel may be timed on this host, by the device's isolation."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from tunesmith.types import Isolation
from workers.sandbox.lease import HostLease

WINDOW_SECONDS = 1.0
"""A series of timings gives the host back to builders and searchers after this long. Each change of hands costs the
rest of whatever unit of work they are at, so that much shorter windows leave cores idle."""
HANGING = 2.0
"""A window in which a kernel hangs ends after this many times its length, whatever the kernel does."""


def isolation_of(kind: str, threads: int, host_cores: int, local: bool) -> Isolation:
    """What may run on this host while a device's kernels are timed.

    Args:
        kind: kind of the target.
        threads: threads of its kernels.
        host_cores: cores that this host's processes may use.
        local: the device is this host, or is attached to it.
    """
    if not local or kind != "llvm":
        return Isolation.SHARED
    return Isolation.PINNED if threads < host_cores else Isolation.EXCLUSIVE


class Windows:
    """Hands out windows of one device.

    Args:
        lease: this host's lease.
    """

    def __init__(self, lease: HostLease) -> None:
        self._lease = lease
        self._isolation = Isolation.SHARED
        self._reserved = contextlib.ExitStack()

    def begin(self, isolation: Isolation, cores: frozenset[int]) -> None:
        """From now on as ``isolation`` says; with ``PINNED`` this host's other work stays off ``cores``."""
        self.end()
        self._isolation = isolation
        if isolation is Isolation.PINNED:
            self._reserved.enter_context(self._lease.reserve(cores))

    def end(self) -> None:
        """Give reserved cores back."""
        self._reserved.close()
        self._isolation = Isolation.SHARED

    @contextlib.contextmanager
    def window(self, seconds: float = WINDOW_SECONDS) -> Iterator[None]:
        """One window; a kernel that hangs in it loses it after twice ``seconds``."""
        if self._isolation is Isolation.EXCLUSIVE:
            with self._lease.exclusive(HANGING * seconds):
                yield
        elif self._isolation is Isolation.PINNED:
            with self._lease.shared(move=False):
                yield
        else:
            yield

    def series(self) -> Series:
        """Windows one after the other, for a series of timings."""
        return Series(self)


class Series:
    """A context in which :meth:`renew`, before each timing, sees to it that a window is open."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._open = contextlib.ExitStack()
        self._since: float | None = None

    @property
    def due(self) -> bool:
        """True when :meth:`renew` would wait for a new window."""
        return self._since is None or time.monotonic() - self._since > WINDOW_SECONDS

    def renew(self) -> None:
        """Open a window; one that is too old is closed first, and whoever waits gets its turn."""
        if self.due:
            self._open.close()
            self._open.enter_context(self._windows.window())
            self._since = time.monotonic()

    def __enter__(self) -> Series:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._since = None
