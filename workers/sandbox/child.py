"""Main program of a pool's processes: makes one object, then forks a copy of itself for each child that is asked for.

What making the object costs (importing TVM takes two seconds) is paid once and not by every child that replaces one
that crashed or was killed.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from tunesmith.starting import undisturbed
from workers.sandbox.box.base import Confinement
from workers.sandbox.box.entering import enter
from workers.sandbox.frames import CLAIMS, Channel, Closed
from workers.sandbox.limits import restrict
from workers.sandbox.parent_death import die_with_parent

FORK = "fork"
REAP = "reap"


def resolve(name: str) -> Any:
    """The object called ``module:attribute``."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def main(argv: list[str]) -> int:
    """``SOCKET PARENT MEMORY``; the first frame is ``(factory, arguments)``, then ``(FORK, confinement)`` with
    two descriptors after it, or ``(REAP, pid)``."""
    die_with_parent(int(argv[1]))
    link = socket.socket(fileno=int(argv[0]))
    link.set_inheritable(False)
    channel = Channel(link.fileno(), os.dup(link.fileno()))
    try:
        factory, arguments = channel.receive()
        with undisturbed():
            actor = answer(channel, partial(resolve, factory), arguments, reveal=False)
        gc.collect()
        gc.freeze()  # a collection in a child would touch, and so copy, every object that it shares with this process
        while actor is not None:
            what, given = channel.receive()
            channel.send(reap(given) if what == REAP else fork(actor, link, channel, int(argv[2]), given))
    except Closed:
        return 0
    return 1


def fork(actor: Any, link: socket.socket, channel: Channel, memory: int, confinement: Confinement | None) -> int:
    """A child that serves ``actor`` over the descriptors that come next; its process id."""
    _, descriptors, _, _ = socket.recv_fds(link, 1, 2)
    template = os.getpid()
    pid = os.fork()
    if pid == 0:
        link.detach()
        channel.close()
        _become_child(actor, descriptors, template, memory, confinement)
    for descriptor in descriptors:
        os.close(descriptor)
    return pid


def reap(pid: int) -> tuple[int, int, float]:
    """Wait for a child's end: exit code, a signal as a negative one; bytes in memory at most; processor seconds."""
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime


def _become_child(
    actor: Any, descriptors: Sequence[int], parent: int, memory: int, confinement: Confinement | None
) -> NoReturn:
    """What the fork does until the process ends; it must never return into the template's loop."""
    code = 1
    try:
        os.setsid()
        die_with_parent(parent)
        read, write = descriptors
        os.set_inheritable(read, False)
        os.set_inheritable(write, False)
        if confinement is None:
            restrict(memory)
            channel = Channel(read, write)
        else:
            enter(confinement, keep=(read, write))
            die_with_parent(parent)  # a new user id has undone it
            channel = Channel(read, write, writes=CLAIMS)
        serve(channel, actor)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve(channel: Channel, actor: Any) -> None:
    """Call the object's methods as the parent asks, until that is gone."""
    try:
        channel.send(("ok", None))
        while True:
            method, arguments = channel.receive()
            answer(channel, partial(getattr, actor, method), arguments, reveal=True)
    except Closed:
        return


def answer(channel: Channel, find: Callable[[], Any], arguments: tuple[Any, ...], *, reveal: bool) -> Any:
    """Send ``("ok", value)`` or ``("error", type, text, traceback)``; returns the value, None after an error."""
    try:
        value = find()(*arguments)
    except Exception as error:  # it belongs to whoever asked, who gets its name and text
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
