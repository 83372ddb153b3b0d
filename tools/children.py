"""Work in a child process that may crash or not end, with limits of time and memory."""

from __future__ import annotations

import logging
import os
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable
from typing import NoReturn

LONGEST_ANSWER = 4000
"""Bytes of an answer that are kept."""


class TimedOut(Exception):
    """The child did not answer in time, and was killed."""


class Crashed(Exception):
    """The child ended without an answer: by a signal, which the text names, or with an exit code."""


def answer_of(work: Callable[[], str], seconds: float, memory_bytes: int) -> str:
    """What ``work`` returns in a fork of this process, up to ``LONGEST_ANSWER`` bytes. Its output is dropped.

    Raises:
        TimedOut: ``work`` takes longer than ``seconds``.
        Crashed: the child dies.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(work, memory_bytes, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said, ended = b"", time.monotonic() + seconds
        while (left := ended - time.monotonic()) > 0 and select.select([file], [], [], left)[0]:
            more = os.read(file.fileno(), 65536)
            if not more:
                break
            said += more
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimedOut(f"over {seconds:.0f} s")
    _, status = os.waitpid(child, 0)
    if not said:
        raise Crashed(signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}")
    return said.decode(errors="replace")


def _run(work: Callable[[], str], memory_bytes: int, writing: int) -> NoReturn:
    """The child's part."""
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        os.write(writing, work().encode(errors="replace")[:LONGEST_ANSWER])
    finally:
        os._exit(0)
