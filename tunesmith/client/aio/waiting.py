"""How the asynchronous client waits: other tasks of its event loop go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

sleep = asyncio.sleep


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function returns that would hold up the event loop, such as one that unpacks an archive."""
    return await asyncio.to_thread(work, *args, **kwargs)
