"""The kernels of compiled models, timed one by one: ``python -m benchmarks.harness.kernels_child JOB ANSWER``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.child import answer, there_and_back, use_cores

SAMPLE_SECONDS = 0.01
BUILTIN = "vm."
"""Begins the names of what the Relax VM calls beside kernels."""


@dataclass(frozen=True)
class Job:
    """What to time.

    Attributes:
        libraries: files by name; the Relax function ``main`` of each takes the inputs.
        inputs: ``.npz`` of the inputs in order.
        threads: to run on.
        repeats: samples of each kernel.
    """

    libraries: Mapping[str, str]
    inputs: str
    threads: int
    repeats: int


@dataclass(frozen=True)
class Call:
    """A kernel with the arguments that a run of the model gave it."""

    kernel: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def sample(self, number: int) -> float:
        """Median seconds of ``number`` runs on end, each timed by itself: a mean would hold what interrupts one."""
        function, arguments = self.function, self.arguments
        seconds = []
        for _ in range(number):
            started = time.perf_counter()
            function(*arguments)
            seconds.append(time.perf_counter() - started)
        return statistics.median(seconds)


def measure(job: Job) -> dict[str, list[tuple[str, list[float]]]]:
    """By library, each kernel of one run with its samples in seconds, taken in turn."""
    use_cores(job.threads)
    with np.load(job.inputs) as file:
        inputs = [file[name] for name in file.files]
    calls = {name: calls_of(path, inputs) for name, path in job.libraries.items()}
    every = [call for found in calls.values() for call in found]
    numbers = [max(1, int(SAMPLE_SECONDS / max(call.sample(3), 1e-9))) for call in every]
    samples: list[list[float]] = [[] for _ in every]
    for _, at in there_and_back(range(len(every)), job.repeats):
        samples[at].append(every[at].sample(numbers[at]))
    rows = iter(samples)
    return {name: [(call.kernel, next(rows)) for call in found] for name, found in calls.items()}


def calls_of(library: str, inputs: list[NDArray[Any]]) -> list[Call]:
    """The kernels that one run of a model calls, in order."""
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())
    calls: list[Call] = []

    def note(function: Any, name: str, before: bool, result: Any, *arguments: Any) -> int:
        if before and not str(name).startswith(BUILTIN):
            calls.append(Call(str(name), function, arguments))
        return 0

    machine.set_instrument(note)
    machine["main"](*(tvm.runtime.tensor(array) for array in inputs))
    return calls


if __name__ == "__main__":
    answer(Job, measure)
