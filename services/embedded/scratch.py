"""A folder for everything temporary of a stack's processes, which may be killed and then leave theirs behind."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tunesmith.errors import StackFailed


@contextlib.contextmanager
def scratch(data_dir: Path) -> Iterator[Path]:
    """An empty folder of this stack's own, gone afterwards; what a killed stack left there goes first.

    Not below the data directory: the path of a socket may have 107 bytes. The name follows from the data directory,
    which one stack at a time holds.

    Raises:
        StackFailed: when the folder cannot be made, for example because it is somebody else's.
    """
    name = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:12]
    path = Path(tempfile.gettempdir()) / f"tunesmith-{os.getuid()}-{name}"
    shutil.rmtree(path, ignore_errors=True)
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise StackFailed(f"cannot create the temporary folder {path}: {error.strerror}; set TMPDIR") from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
