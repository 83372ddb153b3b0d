"""Measure a data folder's records a second time, in turn: ``python -m tools.measure_again FOLDER FILE [--imported]``.

All programs of a workload are built first. Then they are timed one after the other, in three rounds, within seconds of
each other, so that nothing that lasts for minutes tells two of them apart. Those that took more than five times as long
as the best are timed once. Nothing else may run on the machine meanwhile. A run that is repeated goes on with the
workloads that the file lacks. With ``--here`` the programs are built for this machine's processor, whichever the
records are of, and the file says so.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.harness.child import use_cores
from benchmarks.harness.measurer import open_measurer
from db.queries.measured import MeasuredWorkload
from tunesmith.dataset import again
from tunesmith.dataset.again import Again, Processor
from workers.core import labelled
from workers.protocol import BuildRequest
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.build.builder import Builder
from workers.tvm_backend.design_space.sketch import SketchBody

FAR = 5.0
"""Programs this many times slower than the best are timed once."""
ROUNDS, REPEATS = 3, 2
SHORTEST = 1.5e-3
"""Seconds of a sample at least."""
BUILD_SECONDS = 60.0
OWN = "the records' own target"
PROCESSES = 2
WORKLOADS = 32
"""Workloads that a process times: loaded libraries stay mapped as long as it lives, and a process may map 65,530."""


def build(part: Sequence[tuple[BuildRequest, str]], lease: Path) -> None:
    """Build programs, in a process of its own; what fails leaves no library."""
    builder = Builder(str(lease), "llvm")
    for request, _ in part:
        builder.build(request)


def some(found: labelled.Found, programs: int | None) -> labelled.Found:
    """So many latencies of each workload at most; in the order of their records' hashes, which is as good as any."""
    rows = {
        key: sorted((row for row in each if row.latency is not None and row.content), key=lambda row: str(row.content))
        for key, each in found.rows.items()
    }
    return replace(found, rows={key: each[:programs] for key, each in rows.items()})


def here() -> Processor:
    """This machine's processor, calibrated."""
    with open_measurer() as measurer:
        return Processor(measurer.target, measurer.calibration())


def begun(file: Path, there: Processor | None) -> Again:
    """What a file has already, or nothing.

    Raises:
        SystemExit: it was begun for another target.
    """
    if not file.is_file():
        return Again({}, there)
    found = again.read(file)
    asked, known = (each and each.target.canonical for each in (there, found.processor))
    if asked != known:
        raise SystemExit(f"{file.name} is of {known or OWN}, not of {asked or OWN}: name another file")
    return found


def positive(text: str) -> int:
    """A number of programs."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} programs: give one or more")
    return number


def requests(
    found: labelled.Found, workload: MeasuredWorkload, module: bytes, folder: Path
) -> list[tuple[BuildRequest, str]]:
    """What to build, each with the hash of its record."""
    made = []
    for place, row in enumerate(found.rows[workload.hash]):
        body = SketchBody.from_json(found.bodies[str(row.candidate.sketch)]).to_json()
        out, decisions = folder / f"{place}.so", tuple(row.candidate.decisions)
        request = BuildRequest(workload.hash, module, found.target.json, body, decisions, out, BUILD_SECONDS)
        made.append((request, str(row.content)))
    return made


def timed(made: Sequence[tuple[BuildRequest, str]], before: dict[str, float], module: bytes) -> dict[str, float]:
    """Medians in seconds of programs that take turns, by their records' hashes."""
    import tvm

    from workers.tvm_backend import tir
    from workers.tvm_backend.passes.extract_tasks import arguments

    specs = arguments(tir.load_module(module)) or ()
    arrays = [tvm.runtime.tensor(random_array(spec, seed)) for seed, spec in enumerate(specs)]
    built = {key: tvm.runtime.load_module(str(request.out)) for request, key in made if request.out.is_file()}
    best = min((before[key] for key in built), default=0.0)
    samples: dict[str, list[float]] = {key: [] for key in built}
    for turn in range(ROUNDS):
        for key, library in built.items():
            near = before[key] < FAR * best
            if near or not turn:
                runs = max(1, int(SHORTEST / before[key]))
                timer = library.time_evaluator("main", tvm.cpu(), number=runs, repeat=REPEATS if near else 1)
                samples[key].append(float(np.median(timer(*arrays).results)))
    return {key: float(np.median(each)) for key, each in samples.items()}


def measure(
    found: labelled.Found, workload: MeasuredWorkload, module: bytes, builders: Executor, device: Executor
) -> dict[str, float]:
    """New latencies of one workload's records by their hashes."""
    with tempfile.TemporaryDirectory() as folder:
        made = requests(found, workload, module, Path(folder))
        parts = [made[part::PROCESSES] for part in range(PROCESSES)]
        list(builders.map(build, parts, [Path(folder) / f"lease{part}" for part in range(PROCESSES)]))
        before = {str(row.content): float(row.latency or 0.0) for row in found.rows[workload.hash]}
        return device.submit(timed, made, before, module).result()


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="data folder of a service")
    parser.add_argument("file", type=Path, help="what to write, or to go on with")
    parser.add_argument("--imported", action="store_true", help="take what was imported, too")
    parser.add_argument("--here", action="store_true", help="build for this processor, whichever the records are of")
    parser.add_argument("--programs", type=positive, help="of each workload, at most (default: all)")
    given = parser.parse_args()
    found, blobs = labelled.in_database(given.folder, imported=given.imported), labelled.blobs_of(given.folder)
    if found is None:
        raise SystemExit(f"{given.folder} has no records")
    before = begun(given.file, here() if given.here else None)
    found, latencies = some(found, given.programs), dict(before.latencies)
    if before.processor is not None:
        found = replace(found, target=before.processor.target)
    spawn, cores = multiprocessing.get_context("spawn"), found.target.num_cores
    with (
        ProcessPoolExecutor(PROCESSES, spawn) as builders,
        # by itself, TVM would leave one of two cores idle
        ProcessPoolExecutor(1, spawn, use_cores, (cores,), max_tasks_per_child=WORKLOADS) as device,
    ):
        for workload in found.workloads:
            if any(row.content in latencies for row in found.rows[workload.hash]):
                continue
            began = time.monotonic()
            taken = measure(found, workload, blobs.get_bytes(workload.module_blob), builders, device)
            latencies |= taken
            again.write(Again(latencies, before.processor), given.file)
            seconds = time.monotonic() - began
            print(
                f"{workload.name}: {len(taken)} of {len(found.rows[workload.hash])} records, {seconds:.0f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
