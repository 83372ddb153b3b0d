"""Kernels that update an argument in place, such as a cache of keys and values: each run gets what the first one got.

Otherwise every run would find what the one before has left, which neither a time nor a check may depend on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

RESTORED = "tunesmith.rpc.restored"


@dataclass(frozen=True)
class Restoring:
    """How such a kernel is timed.

    Attributes:
        call: :func:`run_restored`, on the device where that offers it.
        updated: numbers of the arguments that it updates.
        originals: what these hold before a run.
    """

    call: Callable[..., float]
    updated: tuple[int, ...]
    originals: Sequence[Any]

    def run(self, module: Any, name: str, arguments: Sequence[Any], number: int, warm: int) -> float:
        """Mean seconds of ``number`` runs after ``warm`` others."""
        places = ",".join(map(str, self.updated))
        return float(self.call(module, name, number, warm, places, *arguments, *self.originals))


def run_restored(module: Any, name: str, number: int, warm: int, places: str, *arguments: Any) -> float:
    """Mean seconds of ``number`` runs after ``warm`` others; restoring arguments is not timed.

    Args:
        module, name: the kernel.
        places: numbers of the arguments that it updates, comma-separated.
        arguments: the kernel's, then what those are restored from.
    """
    updated = [int(place) for place in str(places).split(",")]
    given, originals = arguments[: -len(updated)], arguments[-len(updated) :]
    kernel, device, total = module[name], given[updated[0]].device, 0.0
    for run in range(int(warm) + int(number)):
        for place, original in zip(updated, originals, strict=True):
            original.copyto(given[place])
        device.sync()
        started = time.perf_counter()
        kernel(*given)
        device.sync()
        total += time.perf_counter() - started if run >= int(warm) else 0.0
    return total / int(number)
