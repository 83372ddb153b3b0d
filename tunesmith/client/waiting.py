"""How the client waits: its thread does nothing else. ``tunesmith.client.aio.waiting`` is the counterpart."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

sleep = time.sleep


def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function returns; there is no event loop here to hold up."""
    return work(*args, **kwargs)
