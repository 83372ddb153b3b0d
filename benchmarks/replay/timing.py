"""Times kernels in a process of its own: nothing else of the collection runs meanwhile."""

from __future__ import annotations

import math
from typing import Any

from tunesmith.types import TensorSpec
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.run.device_functions import bind
from workers.tvm_backend.warm import visible_cores, warm

SAMPLE_SECONDS = 0.006
REPEATS = 7
CALIBRATE_SECONDS = 0.001


class Timer:
    """Hosted by a pool child, so that a kernel that hangs or crashes costs that process alone."""

    def __init__(self) -> None:
        warm("llvm")
        self._arguments: dict[tuple[TensorSpec, ...], list[Any]] = {}
        self._bound = False

    def time(self, path: str, function: str, args: tuple[TensorSpec, ...], ceiling: float) -> tuple[float, ...]:
        """Samples in seconds, each the mean over runs of some ``SAMPLE_SECONDS``; a single one of a single run for a
        kernel that is slower than ``ceiling``."""
        import tvm

        if not self._bound:  # not before the process is this object's own: binding starts threads
            self._bound = bool(bind(visible_cores()))
        module = tvm.runtime.load_module(path)
        arrays = self._arrays(args)

        def sample(number: int, repeat: int) -> tuple[float, ...]:
            evaluator = module.time_evaluator(function, tvm.cpu(), number=number, repeat=repeat)
            return tuple(float(value) for value in evaluator(*arrays).results)

        (first,) = sample(1, 1)
        if first < CALIBRATE_SECONDS:
            (first,) = sample(math.ceil(CALIBRATE_SECONDS / max(first, 1e-7)), 1)
        if first > ceiling:
            return (first,)
        return sample(max(1, math.ceil(SAMPLE_SECONDS / first)), REPEATS)

    def _arrays(self, specs: tuple[TensorSpec, ...]) -> list[Any]:
        import tvm

        if specs not in self._arguments:
            self._arguments = {specs: [tvm.runtime.tensor(random_array(s, i)) for i, s in enumerate(specs)]}
        return self._arguments[specs]
