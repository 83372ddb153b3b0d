"""Host lease: nothing may build or search on cores that a timed kernel uses."""

from __future__ import annotations

import fcntl
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class HostLease:
    """A read-write lock between processes and threads, on two ``flock`` files.

    Timing windows hold it exclusively, small units of work (one candidate, one generation) share it. Everyone
    passes the turnstile (``<path>.turn``) first and an exclusive holder keeps it until it is done, so whoever
    shares later queues behind a waiting exclusive holder. The kernel drops the locks of a process that dies.
    Not reentrant: a thread that shares the lease must not take it again.

    Args:
        path: the lease file; both files are made when absent and are never removed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._turn = self.path.with_name(self.path.name + ".turn")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._cores = frozenset(os.sched_getaffinity(0))

    @contextmanager
    def shared(self, *, move: bool = True) -> Iterator[None]:
        """Hold the lease together with other units of work.

        Args:
            move: stay off the cores that are reserved; the calling thread is moved when that has changed.
        """
        if move:
            self._move()
        with _locked(self._turn, fcntl.LOCK_SH) as turn:
            main = _open(self.path)
            try:
                fcntl.flock(main, fcntl.LOCK_SH)
                turn.release()
                yield
            finally:
                os.close(main)

    @contextmanager
    def exclusive(self, limit: float | None = None) -> Iterator[None]:
        """Hold the lease alone.

        Args:
            limit: seconds after which the lease is given up although the block still runs, so that a kernel
                that hangs stops nobody else.
        """
        with _locked(self._turn, fcntl.LOCK_EX) as turn, _locked(self.path, fcntl.LOCK_EX) as main:
            if limit is None:
                yield
                return
            timer = threading.Timer(limit, _release, (main, turn))
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()

    @contextmanager
    def reserve(self, cores: frozenset[int]) -> Iterator[None]:
        """Keep ``cores`` for a device's kernels: whoever shares the lease meanwhile runs on the others.

        A file says which, and a lock on it that somebody still needs them.
        """
        name = uuid.uuid4().hex[:8]
        draft = self.path.with_name(f"{self.path.name}.draft-{name}")
        with _locked(draft, fcntl.LOCK_EX) as lock:
            lock.write(",".join(map(str, sorted(cores))))
            # Visible only once it is locked: a reader takes an unlocked one for a dead owner's.
            path = draft.rename(self.path.with_name(f"{self.path.name}.cores-{name}"))
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    def reserved(self) -> frozenset[int]:
        """Cores that devices of this host have reserved."""
        found: set[int] = set()
        for path in self.path.parent.glob(f"{self.path.name}.cores-*"):
            with suppress(OSError):  # the owner is just leaving
                found |= _cores(path)
        return frozenset(found)

    def _move(self) -> None:
        """Put the calling thread on the cores that nobody has reserved; where none is left it stays as it is."""
        free = self._cores - self.reserved() or self._cores
        if os.sched_getaffinity(0) != free:
            os.sched_setaffinity(0, free)


def _cores(path: Path) -> set[int]:
    """Cores of a reservation; none, and no file, when its owner has died."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(fd, 4096).decode()
        return {int(core) for core in text.split(",") if core}
    else:
        path.unlink(missing_ok=True)
        return set()
    finally:
        os.close(fd)


class _Locked:
    """An open lock file; releasing twice is harmless."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._guard = threading.Lock()

    def write(self, text: str) -> None:
        with self._guard:
            if self._fd is not None:
                os.write(self._fd, text.encode())

    def release(self) -> None:
        with self._guard:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None


def _release(*locks: _Locked) -> None:
    for lock in locks:
        lock.release()


@contextmanager
def _locked(path: Path, mode: int) -> Iterator[_Locked]:
    lock = _Locked(_open(path))
    try:
        fcntl.flock(lock._fd, mode)  # type: ignore[arg-type]
        yield lock
    finally:
        lock.release()


def _open(path: Path) -> int:
    # A descriptor of one's own for each holder: flock belongs to the open file, so threads exclude each other too.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
