"""A full disk, said as such."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from tunesmith.errors import DiskFull, InvalidInput

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
SAID = "No space left on device"
"""By linkers, whose errors have no number."""


def is_full(error: BaseException) -> bool:
    """True for an error, or what caused it, that is a full disk or a used-up quota."""
    if isinstance(error, OSError) and error.errno in FULL:
        return True
    return SAID in str(error) or (error.__cause__ is not None and is_full(error.__cause__))


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Name the file or folder that could not be written in the block.

    Raises:
        DiskFull: there is no room, or no more of a quota.
        InvalidInput: for any other reason that the system gives.
    """
    try:
        yield
    except Exception as error:  # libraries wrap the system's error in classes of their own
        if is_full(error) and not isinstance(error, DiskFull):
            raise DiskFull(
                f"cannot write {path}: the disk is full; free some space, or choose a path on another disk",
                field="output",
                value=str(path),
            ) from error
        if isinstance(error, OSError):
            raise InvalidInput(
                f"cannot write {path}: {error.strerror or error}", field="output", value=str(path)
            ) from error
        raise
