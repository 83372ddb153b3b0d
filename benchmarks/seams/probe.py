"""Times copies again and again for a while: ``python -m benchmarks.seams.probe JOB ANSWER``."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.child import answer, use_cores
from benchmarks.seams.copy import Copy

SAMPLES = 5
SAMPLE_SECONDS = 0.0005
PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """What to time.

    Attributes:
        threads: cores.
        sizes: bytes of pieces.
        written: bytes that a core writes in a run.
        seconds: how long.
    """

    threads: int
    sizes: tuple[int, ...]
    written: int
    seconds: float


def probe(job: Job) -> list[list[list[float]]]:
    """Seconds of a run for each size, of pieces among others and of pieces that follow each other; a list for each
    turn."""
    import tvm

    from tunesmith.host import default_lease_path
    from workers.sandbox.lease import HostLease
    from workers.tvm_backend.arguments import random_array
    from workers.tvm_backend.build.builder import build_program
    from workers.tvm_backend.build.local_model import local_target

    use_cores(job.threads)
    target = tvm.target.Target(local_target(f"cpu:{job.threads}").to_json())
    lease = HostLease(default_lease_path())
    with tempfile.TemporaryDirectory(prefix="tunesmith-seams-") as folder:
        kernels = [
            Copy(job.threads, job.written // size, size, between) for size in job.sizes for between in (True, False)
        ]
        timers = []
        for number, kernel in enumerate(kernels):
            library = Path(folder) / f"{number}.so"
            build_program(kernel.module(), target, library)
            arrays = [tvm.runtime.tensor(random_array(spec, seed)) for seed, spec in enumerate(kernel.args)]
            run = tvm.runtime.load_module(str(library))
            once = float(run.time_evaluator("main", tvm.cpu(), number=1, repeat=1)(*arrays).results[0])
            many = max(1, int(SAMPLE_SECONDS / max(once, 1e-9)))
            timers.append((run.time_evaluator("main", tvm.cpu(), number=many, repeat=SAMPLES), arrays))
        found: list[list[list[float]]] = []
        end = time.monotonic() + job.seconds
        while not found or time.monotonic() < end:
            with lease.exclusive(limit=2.0):
                took = [statistics.median(timer(*arrays).results) for timer, arrays in timers]
            found.append([took[at : at + 2] for at in range(0, len(took), 2)])
            time.sleep(PAUSE_SECONDS)
    return found


if __name__ == "__main__":
    answer(Job, probe)
