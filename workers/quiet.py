"""What C++ code writes to the terminal, kept away from whoever reads it."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

from tunesmith.errors import TunesmithError

STANDARD_ERROR = 2


@contextlib.contextmanager
def libraries_are_quiet() -> Iterator[None]:
    """Compiler libraries write their warnings to descriptor 2, past Python: they go to a file for the block's length.

    Python's own standard error goes where it went. The file is shown after an error that nobody foresaw, as it may say
    why.
    """
    sys.stderr.flush()
    terminal, python = os.dup(STANDARD_ERROR), sys.stderr
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), STANDARD_ERROR)
        errors = getattr(python, "errors", None) or "backslashreplace"
        sys.stderr = io.TextIOWrapper(
            os.fdopen(os.dup(terminal), "wb", buffering=0),
            encoding=python.encoding or "utf-8",
            errors=errors,
            write_through=True,
        )
        unforeseen = False
        try:
            yield
        except BaseException as error:
            unforeseen = not isinstance(error, TunesmithError | KeyboardInterrupt)
            raise
        finally:
            sys.stderr.close()
            sys.stderr = python
            os.dup2(terminal, STANDARD_ERROR)
            os.close(terminal)
            if unforeseen:
                aside.seek(0)
                shutil.copyfileobj(aside, os.fdopen(STANDARD_ERROR, "wb", closefd=False))
