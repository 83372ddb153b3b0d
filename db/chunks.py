"""Pieces of long lists, for statements that take so many parameters and no more."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
CHUNK = 500


def chunks(items: Iterable[Item], size: int = CHUNK) -> Iterator[list[Item]]:
    """Up to ``size`` items at a time, in their order."""
    waiting = iter(items)
    while chunk := list(itertools.islice(waiting, size)):
        yield chunk
