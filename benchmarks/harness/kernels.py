"""What a compiled operator's kernel takes by itself, and what is done around it, such as conversions of layouts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.kernels_child import Job
from benchmarks.harness.processes import ask
from tunesmith.errors import MeasurementFailed

CHILD = "benchmarks.harness.kernels_child"
TIMING_SECONDS = 300.0
REPEATS = 20
PROCESSES = 4
"""Where the arrays of a kernel lie, and how near to each other the host puts a guest's cores, differs by process."""


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


def measure(
    libraries: Mapping[str, Path],
    mains: Mapping[str, Set[str]],
    inputs: Path,
    threads: int,
    folder: Path,
    repeats: int = REPEATS,
    *,
    processes: int,
) -> dict[str, Kernels]:
    """Time the kernels of all libraries in turn, in some processes one after another.

    Args:
        libraries: compiled models by name.
        mains: by the same names, the functions of which one is the operator itself.
        inputs: ``.npz`` of the inputs in order.
        threads: to run on.
        folder: for the answers and a log.
        repeats: samples of each kernel in each process.

    Raises:
        MeasurementFailed: a library does not run.
    """
    found = calls(libraries, inputs, threads, folder, repeats, processes=processes)
    return {name: summed(each, mains[name]) for name, each in found.items()}


def calls(
    libraries: Mapping[str, Path],
    inputs: Path,
    threads: int,
    folder: Path,
    repeats: int = REPEATS,
    *,
    processes: int,
) -> dict[str, list[tuple[str, list[float]]]]:
    """By library, the kernels of one run in their order, each with the samples of all processes in seconds.

    The arguments and errors are those of :func:`measure`.
    """
    job = Job({name: str(path) for name, path in libraries.items()}, str(inputs), threads, repeats)
    found: dict[str, list[tuple[str, list[float]]]] = {}
    for _ in range(processes):
        for name, own in ask(CHILD, job, folder, TIMING_SECONDS, "the kernels could not be timed").items():
            known = found.setdefault(name, [(kernel, []) for kernel, _ in own])
            for (_, samples), (_, more) in zip(known, own, strict=True):
                samples += more
    return found


def summed(calls: Sequence[tuple[str, Sequence[float]]], mains: Set[str]) -> Kernels:
    """Medians of the kernels of one run, put together.

    Args:
        calls: names and samples in seconds.
        mains: functions that are the operator itself; one at least is called.

    Raises:
        MeasurementFailed: the run called none of them.
    """
    medians = [(name, statistics.median(samples)) for name, samples in calls]
    if not any(name in mains for name, _ in medians):
        raise MeasurementFailed(
            f"{' or '.join(sorted(mains))} is not among the kernels "
            f"{', '.join(name for name, _ in medians) or 'at all'}"
        )
    return Kernels(
        sum(seconds for name, seconds in medians if name in mains),
        sum(seconds for name, seconds in medians if name not in mains),
    )


def main_functions(module: bytes) -> frozenset[str]:
    """The function of a prepared module with the most operations, and its alternative where there is one."""
    from workers.tvm_backend.passes.extract_tasks import extract_tasks

    tasks = extract_tasks(module)
    direct = [task for task in tasks if task.alternative_of is None]
    main = max(direct, key=lambda task: task.workload.flops * task.weight).workload
    return frozenset(task.workload.name for task in tasks if main.hash in (task.workload.hash, task.alternative_of))
