"""Content-addressed files: modules, weights, features, cost models."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from db.chunks import chunks
from tunesmith.errors import NotFound

_UNFINISHED, _REMOVED = ".incoming-", ".removed-"
LEFT_BEHIND_SECONDS = 24 * 3600.0
"""No import writes for so long without a pause: an older folder was left by a process that was killed."""
_SHA = re.compile(r"[0-9a-f]{64}")


def _umask() -> int:
    """This process's, without changing it even for a moment, where the system tells it."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("Umask:")).split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


class BlobStore:
    """Files named by the SHA-256 of their content, ``ab/abcdef…``, written atomically and never changed."""

    def __init__(self, directory: Path | str) -> None:
        self.directory, self.mode = Path(directory), 0o644 & ~_umask()
        self.directory.mkdir(parents=True, exist_ok=True)

    def path(self, sha: str) -> Path:
        """Where a blob lies, whether it exists or not. Raises NotFound when ``sha`` is not a SHA-256."""
        if not _SHA.fullmatch(sha):
            raise NotFound(f"{sha[:80]!r} is not the SHA-256 of a blob")
        return self.directory / sha[:2] / sha

    def exists(self, sha: str) -> bool:
        """True when the blob is there."""
        return self.path(sha).is_file()

    def size(self, sha: str) -> int:
        """Bytes of a blob. Raises NotFound."""
        try:
            return self.path(sha).stat().st_size
        except FileNotFoundError:
            raise NotFound(f"no blob {sha}") from None

    def open(self, sha: str) -> BinaryIO:
        """A blob for reading. Raises NotFound."""
        try:
            return self.path(sha).open("rb")
        except FileNotFoundError:
            raise NotFound(f"no blob {sha}") from None

    def get_bytes(self, sha: str) -> bytes:
        """A whole blob, for small ones. Raises NotFound."""
        with self.open(sha) as file:
            return file.read()

    def put_bytes(self, data: bytes) -> str:
        """Store ``data``, return its SHA-256."""
        sha = hashlib.sha256(data).hexdigest()
        try:
            os.utime(self.path(sha))  # it is wanted again: see prune
        except FileNotFoundError:
            with self.writer() as writer:
                writer.write(data)
        return sha

    def sweep(self, seconds: float = LEFT_BEHIND_SECONDS) -> None:
        """Remove what killed processes left unfinished: files at once, folders, which earlier versions made, after
        ``seconds`` without a change.

        The writer of a file holds a lock on it, which the system takes from the dead.
        """
        for path in self.directory.glob(f"{_UNFINISHED}*"):
            with contextlib.suppress(FileNotFoundError):  # the writer has just finished
                old = time.time() - path.stat().st_mtime > seconds
                if path.is_file():
                    _remove_unless_written(path, old)
                elif old:
                    shutil.rmtree(path, ignore_errors=True)

    def all(self) -> Iterator[str]:
        """Every blob, in no order."""
        for folder in self.directory.iterdir():
            if len(folder.name) == 2 and folder.is_dir():
                yield from (path.name for path in folder.iterdir() if _SHA.fullmatch(path.name))

    def prune(
        self,
        named: Callable[[set[str]], set[str]],
        seconds: float,
        *,
        dry_run: bool = False,
        only: Collection[str] | None = None,
    ) -> tuple[int, int]:
        """Remove blobs that nobody names and nobody has stored for ``seconds``; how many, and their bytes.

        Whoever needs a blob stores it before a row names it, and storing it again renews its time. So a blob that is
        stored while this runs stays. Nothing is removed while :meth:`no_pruning` holds.

        Args:
            named: which of some blobs are named.
            dry_run: count only.
            only: blobs to look at; None: all of them.
        """
        count = size = 0
        with self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB) as held:
            for aside in self.directory.glob(f"{_REMOVED}*") if held else ():  # left by a process that was killed
                aside.replace(self.path(aside.name.removeprefix(_REMOVED)))
            for some in chunks(self.all() if only is None else only) if held else ():
                old = {sha for sha in some if self._is_old(self.path(sha), seconds)}
                for sha in old - named(old):
                    bytes_ = self.size(sha)
                    if dry_run or self._remove(sha, seconds):
                        count, size = count + 1, size + bytes_
        return count, size

    @contextlib.contextmanager
    def no_pruning(self) -> Iterator[None]:
        """Every blob stays meanwhile; waits until a :meth:`prune` that is under way has ended."""
        with self._lock(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def _lock(self, how: int) -> Iterator[bool]:
        """Hold the lock of pruning, the folder's own; False when another has it and ``how`` does not wait."""
        handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(handle, how)
                held = True
            except BlockingIOError:
                held = False
            yield held
        finally:
            os.close(handle)

    @staticmethod
    def _is_old(path: Path, seconds: float) -> bool:
        try:
            return time.time() - path.stat().st_mtime >= seconds
        except FileNotFoundError:
            return False

    def _remove(self, sha: str, seconds: float) -> bool:
        """Take a blob away, unless it was stored anew since it was looked at: then it is put back."""
        path, aside = self.path(sha), self.directory / f"{_REMOVED}{sha}"
        os.rename(path, aside)
        if not self._is_old(aside, seconds):
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
            aside.unlink()
            return False
        aside.unlink()
        return True

    def writer(self) -> BlobWriter:
        """A context manager for streaming into the store."""
        return BlobWriter(self)


def _remove_unless_written(path: Path, old: bool) -> None:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        except OSError:  # a file system without locks
            if not old:
                return
        path.unlink(missing_ok=True)


class BlobWriter:
    """Hashes while it writes; the blob appears when the ``with`` block ends, and not at all after an exception.

    Attributes:
        size: bytes written so far.
    """

    def __init__(self, store: BlobStore) -> None:
        self._store, self._hash = store, hashlib.sha256()
        self._file: BinaryIO | None = None
        self._temporary = ""
        self.size = 0

    def __enter__(self) -> BlobWriter:
        while self._file is None:
            handle, self._temporary = tempfile.mkstemp(prefix=_UNFINISHED, dir=self._store.directory)
            with contextlib.suppress(OSError):  # a file system without locks: then it is old before it is swept
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:
                self._file = os.fdopen(handle, "wb")
            else:  # swept before it was locked
                os.close(handle)
        return self

    @property
    def sha(self) -> str:
        """SHA-256 of what was written so far."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> int:
        """Append ``data``."""
        assert self._file is not None, "a blob writer is used as a context manager"
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        try:
            if kind is None:
                self._file.flush()
                os.fsync(self._file.fileno())
                self._publish()  # while it is locked, or it would be swept
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)
            self._file.close()

    def _publish(self) -> None:
        path = self._store.path(self.sha)
        path.parent.mkdir(exist_ok=True)
        os.chmod(self._temporary, self._store.mode)
        os.replace(self._temporary, path)
