"""What a compiled operator's kernel takes by itself, and what is done around it, such as conversions of layouts."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.operators.kernels_child import Job
from benchmarks.processes import Tree
from tunesmith.errors import MeasurementFailed

CHILD = "benchmarks.operators.kernels_child"
LIMIT = 300.0
REPEATS = 20


@dataclass(frozen=True)
class Kernels:
    """The kernels of one run, in seconds.

    Attributes:
        main: the operator itself.
        others: everything else together.
    """

    main: float
    others: float

    @property
    def total(self) -> float:
        """One run without the calls between the kernels."""
        return self.main + self.others


def measure(libraries: Mapping[str, Path], mains: Mapping[str, str], inputs: Path, threads: int, folder: Path,
            repeats: int = REPEATS) -> dict[str, Kernels]:  # fmt: skip
    """Time the kernels of all libraries in turn, in one process.

    Args:
        libraries: compiled models by name.
        mains: by the same names, the function that is the operator itself.
        inputs: ``.npz`` of the inputs in order.
        threads: to run on.
        folder: for the answer and a log.
        repeats: samples of each kernel.

    Raises:
        MeasurementFailed: a library does not run.
    """
    answer = folder / "kernels.json"
    job = Job({name: str(path) for name, path in libraries.items()}, str(inputs), threads, repeats, str(answer))
    command = [sys.executable, "-m", CHILD, json.dumps(asdict(job))]
    with Tree(command, log=folder / "kernels.log", folder=folder, env=os.environ) as tree:
        if tree.wait(LIMIT) != 0:
            raise MeasurementFailed(f"the kernels could not be timed: {tree.tail()}")
    found = json.loads(answer.read_text("utf-8"))
    return {name: summed(calls, mains[name]) for name, calls in found.items()}


def summed(calls: Sequence[tuple[str, Sequence[float]]], main: str) -> Kernels:
    """Medians of the kernels of one run, put together.

    Args:
        calls: names and samples in seconds; one at least is ``main``.
        main: the function that is the operator itself.

    Raises:
        MeasurementFailed: the run did not call it.
    """
    medians = [(name, statistics.median(samples)) for name, samples in calls]
    if main not in (name for name, _ in medians):
        raise MeasurementFailed(f"{main} is not among the kernels {', '.join(name for name, _ in medians) or 'at all'}")
    return Kernels(
        sum(seconds for name, seconds in medians if name == main),
        sum(seconds for name, seconds in medians if name != main),
    )


def main_function(module: bytes) -> str:
    """The function of a prepared module with the most operations."""
    from workers.tvm_backend.tasks import extract_tasks

    return max(extract_tasks(module), key=lambda task: task.workload.flops * task.weight).workload.name
