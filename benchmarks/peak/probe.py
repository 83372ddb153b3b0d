"""Times the limits of this machine for one number of threads: ``python -m benchmarks.peak.probe JOB ANSWER``."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.child import answer, use_cores


@dataclass(frozen=True)
class Job:
    """What to time.

    Attributes:
        threads: of every kernel; they run on as many of the visible cores.
        sizes: bytes to read, one kernel each.
        repeats: samples of each.
    """

    threads: int
    sizes: tuple[int, ...]
    repeats: int


def probe(job: Job) -> dict[str, Any]:
    """``flops``: FLOP/s by vector width; ``narrow``: the same by precision; ``reads``: bytes and bytes/s by size; each
    a list of samples."""
    from tunesmith.host import default_lease_path
    from workers.sandbox.lease import HostLease
    from workers.tvm_backend.build import calibration_kernels
    from workers.tvm_backend.build.local_model import local_target

    use_cores(job.threads)
    target, lease = local_target(f"cpu:{job.threads}").to_json(), HostLease(default_lease_path())

    def rates(kernel: calibration_kernels.Kernel) -> list[float]:
        # A folder for each: a library of the same path would not be loaded anew.
        with tempfile.TemporaryDirectory(prefix="tunesmith-peak-") as folder:
            built = calibration_kernels.build(kernel, target, Path(folder) / "kernel.so")
            with lease.exclusive(limit=2.0):
                samples = calibration_kernels.time_here(kernel, built, job.repeats)
        return [kernel.work / sample for sample in samples]

    reads = [calibration_kernels.cached_read(job.threads, size) for size in job.sizes]
    return {
        "flops": [rates(kernel) for kernel in calibration_kernels.peaks(job.threads)],
        "narrow": {name: rates(kernel) for name, kernel in calibration_kernels.narrow_peaks(target).items()},
        "reads": [[kernel.work / kernel.passes, rates(kernel)] for kernel in reads],
    }


if __name__ == "__main__":
    answer(Job, probe)
