"""Main program of a pool's child: makes one object and calls its methods as the parent asks."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from workers.sandbox.frames import Channel, Closed
from workers.sandbox.limits import restrict
from workers.sandbox.parent_death import die_with_parent


def resolve(name: str) -> Any:
    """The object called ``module:attribute``."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def main(argv: list[str]) -> int:
    """``READ_FD WRITE_FD PARENT MEMORY``; the first frame is ``(factory, arguments)``, then ``(method, arguments)``."""
    die_with_parent(int(argv[2]))
    restrict(int(argv[3]))
    channel = Channel(int(argv[0]), int(argv[1]))
    for fd in argv[:2]:
        os.set_inheritable(int(fd), False)
    try:
        factory, arguments = channel.receive()
        actor = answer(channel, partial(resolve, factory), arguments, reveal=False)
        while actor is not None:
            method, arguments = channel.receive()
            answer(channel, partial(getattr, actor, method), arguments, reveal=True)
    except Closed:
        return 0
    return 1


def answer(channel: Channel, find: Callable[[], Any], arguments: tuple[Any, ...], *, reveal: bool) -> Any:
    """Send ``("ok", value)`` or ``("error", type, text, traceback)``; returns the value, None after an error."""
    try:
        value = find()(*arguments)
    except Exception as error:
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        channel.send(("error", kind, str(error), traceback.format_exc(limit=-8)))
        return None
    try:
        channel.send(("ok", value if reveal else None))
    except (TypeError, AttributeError) as error:
        channel.send(("error", "TypeError", f"the result cannot be sent: {error}", ""))
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
