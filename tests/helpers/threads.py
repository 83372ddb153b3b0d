"""Running one function in several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def at_once(number: int, work: Callable[[int], Value], timeout: float = 60) -> list[Value | BaseException]:
    """What ``work(0)`` … ``work(number - 1)`` return or raise, started together."""
    barrier = threading.Barrier(number)
    results: list[Value | BaseException] = [RuntimeError("did not end")] * number

    def run(index: int) -> None:
        barrier.wait(timeout=timeout)
        try:
            results[index] = work(index)
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=timeout)
    return results
