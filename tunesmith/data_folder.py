"""The data folder: usable, and closed to other users, that of an earlier version as well."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tunesmith.errors import InvalidInput
from tunesmith.names import CONNECTION_FILE

DATABASE = "tunesmith.db"
BLOBS = "blobs"
MAX_PATH_BYTES = 512 - len("/tunesmith.db-journal")
"""Bytes of the folder's path: SQLite opens no file whose path is longer than 512."""
UMASK = "077"
UMASK_HELP = (
    "Permissions that new files and folders of the data folder lack, in octal; `007` lets workers with another user id "
    "and the same group share the blobs."
)
_OURS = frozenset(
    {
        DATABASE,
        f"{DATABASE}-wal",
        f"{DATABASE}-shm",
        f"{DATABASE}-journal",
        BLOBS,
        "logs",
        "secret_key",
        "up.lock",
        CONNECTION_FILE,
        "worker_key",
        "measure-cache",
        "poison",
        "calibration",
    }
)
"""What Tunesmith keeps there: the folder may be one that holds other things, too, which are nobody's business."""


def resolve(path: Path) -> Path:
    """The folder's absolute path, with ``~`` filled in.

    Raises:
        InvalidInput: there is no such user, or the path is too long.
    """
    try:
        found = path.expanduser().absolute()
    except RuntimeError as error:
        raise _refused(path, "there is no such user") from error
    if len(os.fsencode(found)) > MAX_PATH_BYTES:
        raise _refused(path, f"its path is longer than {MAX_PATH_BYTES} bytes, which SQLite does not open")
    try:
        os.fsencode(found).decode()
    except UnicodeDecodeError as error:
        raise _refused(path, "its path is not UTF-8") from error
    return found


def prepare(path: Path, umask: str = UMASK) -> Path:
    """Make the folder, close it to others, and have this process make nothing that others may read.

    Args:
        path: the folder, made when it is missing.
        umask: octal permissions that nothing in it shall have.

    Raises:
        InvalidInput: it cannot be made, is none, or cannot be written to.
    """
    folder, mask = resolve(path), int(umask, 8)
    os.umask(mask)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = list(folder.iterdir())
    except FileExistsError as error:
        raise _refused(folder, "it is not a folder") from error
    except OSError as error:
        raise _refused(folder, error.strerror or str(error)) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refused(folder, "it cannot be written to")
    for entry in entries:
        if entry.name in _OURS:
            _tighten(entry, mask)
    if all(entry.name in _OURS for entry in entries):
        _close(folder, mask)
    return folder


def _tighten(path: Path, mask: int) -> None:
    """Take permissions from a file or from all that is in a folder: the folder comes last, and says that it is done."""
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode) or not found.st_mode & mask:
            return
        if stat.S_ISDIR(found.st_mode):
            for entry in path.iterdir():
                _tighten(entry, mask)
    except (FileNotFoundError, PermissionError):  # just removed, or another user's: not to be changed
        return
    _close(path, mask)


def _close(path: Path, mask: int) -> None:
    found = path.stat()
    if found.st_mode & mask and found.st_uid == os.geteuid():
        path.chmod(stat.S_IMODE(found.st_mode) & ~mask)


def _refused(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"cannot use the data folder {str(path)!a}: {why}; give another with --data-dir or TUNESMITH_DATA_DIR",
        field="data_dir",
        value=ascii(str(path))[1:-1],
    )
