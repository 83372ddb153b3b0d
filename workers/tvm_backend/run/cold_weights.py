"""Weights as a model finds them: not where the kernel's last run has left them.

A kernel that is timed again and again finds its weights in the nearest cache. In a model all the other weights are
read between two of its runs. So its timed runs go round a ring of copies of its weights that has as many bytes as the
model's weights have: the distance between two uses is the model's own, and the weights come from where the model
has them, from memory or from a cache that holds all of them. Whatever else the kernel takes stays where it is: in a
model its other inputs were written a moment ago.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tunesmith.host import cache_sizes
from tunesmith.messages import ModelWeights

STREAM = "tunesmith.rpc.stream"
BEYOND = 2
"""A ring need not be larger than so many times the caches of the host, to lie in memory."""
LARGEST = 512 << 20
"""Bytes of a ring, whatever the caches hold."""


@dataclass(frozen=True)
class Stream:
    """How a kernel's runs are timed on weights that lie where its model has them.

    Attributes:
        call: :meth:`Ring.run` on the device.
        weights: which arguments, and how far apart two uses of them lie.
    """

    call: Callable[..., float]
    weights: ModelWeights

    def run(self, module: Any, name: str, arguments: Sequence[Any], number: int, warm: int) -> float:
        """Mean seconds of ``number`` runs after ``warm`` others."""
        places = ",".join(map(str, self.weights.arguments))
        return float(self.call(module, name, number, warm, self.weights.size, places, *arguments))


def stream_of(call: Callable[..., float] | None, weights: ModelWeights | None) -> Stream | None:
    """How to time on a device that offers ``call``; None: as ever, because it offers none or there are no weights."""
    return None if call is None or weights is None else Stream(call, weights)


class Ring:
    """Copies of the weights of the workload that was timed last; lives in a session's process."""

    def __init__(self, largest: int | None = None) -> None:
        self._largest = ring_limit() if largest is None else largest
        self._key: tuple[Any, ...] = ()
        self._copies: list[list[Any]] = []
        self._turn = 0

    def run(self, module: Any, name: str, number: int, warm: int, size: int, places: str, *arguments: Any) -> float:
        """Mean seconds of ``number`` runs on a CPU after ``warm`` others, each on the next copy of the weights.

        Args:
            module, name: the kernel.
            size: bytes of the model's weights.
            places: which of ``arguments`` are weights: their numbers, comma-separated.
        """
        chosen = [int(place) for place in str(places).split(",")]
        self._fill([arguments[place] for place in chosen], int(size))
        kernel = module[name]
        runs = [self._next(chosen, arguments) for _ in range(int(warm) + int(number))]
        for given in runs[: int(warm)]:
            kernel(*given)
        started = time.perf_counter()
        for given in runs[int(warm) :]:
            kernel(*given)
        return (time.perf_counter() - started) / int(number)

    def _next(self, places: Sequence[int], arguments: Sequence[Any]) -> list[Any]:
        given = list(arguments)
        for place, copy in zip(places, self._copies[self._turn], strict=True):
            given[place] = copy
        self._turn = (self._turn + 1) % len(self._copies)
        return given

    def _fill(self, weights: Sequence[Any], size: int) -> None:
        """Copies of ``weights``, each allocated like a parameter of a model; those of an equal workload are kept."""
        import tvm

        key = (size, *((str(tensor.dtype), tuple(map(int, tensor.shape))) for tensor in weights))
        if key == self._key:
            return
        self._key, self._copies, self._turn = (), [], 0  # room first
        count = copies(sum(map(_bytes, weights)), size, self._largest)
        if count == 1:
            self._copies = [list(weights)]
            return
        for _ in range(count):
            made = [tvm.runtime.empty(tensor.shape, tensor.dtype, tvm.cpu()) for tensor in weights]
            for tensor, copy in zip(weights, made, strict=True):
                tensor.copyto(copy)
            self._copies.append(made)
        self._key = key


def copies(own: int, model: int, largest: int) -> int:
    """Copies of a workload's weights that make a ring as long as its model's weights.

    Args:
        own, model: bytes of the weights of the workload, and of the model.
        largest: bytes beyond which a ring need not grow.

    Returns:
        1 where the workload has all of the model's weights, or where no cache holds its own.
    """
    if own >= min(model, largest):
        return 1
    return max(2, math.ceil(min(model, largest) / own))


def ring_limit() -> int:
    """Bytes of a ring that this host's caches cannot hold."""
    largest = max(cache_sizes(range(os.cpu_count() or 1)).values(), default=LARGEST)
    return min(LARGEST, BEYOND * largest)


def _bytes(tensor: Any) -> int:
    return math.prod(map(int, tensor.shape)) * int(tensor.dtype.itemsize)
