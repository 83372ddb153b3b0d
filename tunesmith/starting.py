"""How a process of the service starts: without looking for cycles in what it imports, all of which stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """Import within this block: Python's collector would go through all that is loaded again and again, a tenth of the
    time and more. What is there at the end is left out of later collections, too."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
