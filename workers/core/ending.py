"""Tells a worker's processes that it is to end."""

from __future__ import annotations

import mmap


class Ending:
    """Says that the worker is to end, to every process that was forked after this was made."""

    def __init__(self) -> None:
        self._flag = mmap.mmap(-1, 1)

    def set(self) -> None:
        """From now on the worker is to end; safe in a signal handler."""
        self._flag[0] = 1

    def __call__(self) -> bool:
        """True when the worker is to end."""
        return bool(self._flag[0])
