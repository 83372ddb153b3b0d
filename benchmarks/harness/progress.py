"""What a benchmark says while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable

Progress = Callable[[str], None]
"""Takes a line for people now and then."""


def progress_of(name: str) -> Progress:
    """Prints lines on something of that name, each with the seconds since this call."""
    started = time.monotonic()
    return lambda text: print(f"{name}, {time.monotonic() - started:4.0f} s: {text}", flush=True)
