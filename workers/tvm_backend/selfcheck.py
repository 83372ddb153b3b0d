"""Whether TVM works here: ``python -m workers.tvm_backend.selfcheck`` compiles, links, runs and times kernels.

Prints one line of JSON: the host, the threads in force, whether a gemm is right, the host's peaks in FLOP/s and its
bandwidth in bytes/s, and ``medians``, the seconds of one kernel that does not change, measured several times.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workers.protocol import Built
from workers.sandbox.lease import HostLease
from workers.settings import Settings
from workers.tvm_backend.build import calibration_kernels
from workers.tvm_backend.host import describe
from workers.tvm_backend.warm import warm

MEDIANS = 9
SAMPLES = 10
SAMPLE_SECONDS = 0.002
TOLERANCE = 1e-4
WINDOW_SECONDS = 1.0
"""Nobody of the service on this host builds or times anything meanwhile, but no longer than that."""


def run_selfcheck() -> dict[str, Any]:
    """Compile, link, load, run and time.

    Raises:
        MissingDependency: nothing to link with.
    """
    import tvm
    import tvm_ffi

    host, lease = describe(), HostLease(Settings().lease_file)
    reference = calibration_kernels.Reference()
    peaks, narrow = calibration_kernels.peaks(host.cores), calibration_kernels.narrow_peaks(host.target)
    limits: list[calibration_kernels.Kernel] = [
        *peaks,
        *narrow.values(),
        calibration_kernels.uncached_read(host.cores),
    ]
    with tempfile.TemporaryDirectory(prefix="tunesmith-check-") as folder:
        with lease.shared():
            same = _built(reference, host.target, folder, "reference")
            built = [_built(kernel, host.target, folder, f"limit{index}") for index, kernel in enumerate(limits)]
        right = _right(reference, same)
        rates, medians = list[float](), list[float]()
        for kernel, library in zip(limits, built, strict=True):
            for _ in range(MEDIANS // len(limits)):
                with lease.exclusive(WINDOW_SECONDS):
                    medians.append(
                        statistics.median(calibration_kernels.time_here(reference, same, SAMPLES, SAMPLE_SECONDS))
                    )
            with lease.exclusive(WINDOW_SECONDS):
                rates.append(kernel.work / min(calibration_kernels.time_here(kernel, library)))
    return {
        "host": asdict(host),
        "tvm_ffi": str(tvm_ffi.__version__),
        "threads": int(tvm.get_global_func("runtime.NumThreads")()),
        "right": right,
        "peak_flops": max(rates[: len(peaks)]),
        "narrow_flops": dict(zip(narrow, rates[len(peaks) : -1], strict=True)),
        "bandwidth": rates[-1],
        "medians": medians,
    }


def _built(kernel: calibration_kernels.Kernel, target: Mapping[str, Any], folder: str, name: str) -> Built:
    return calibration_kernels.build(kernel, target, Path(folder) / f"{name}.so")


def _right(kernel: calibration_kernels.Reference, built: Built) -> bool:
    """Whether the gemm's product is NumPy's."""
    import numpy as np
    import tvm

    from workers.tvm_backend.arguments import random_array

    a, b = (random_array(spec, seed) for seed, spec in enumerate(kernel.args[:2]))
    out = tvm.runtime.tensor(np.zeros(kernel.args[2].shape, "float32"))
    tvm.runtime.load_module(str(built.path))[built.function](tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
    expected = a @ b
    return float(np.abs(out.numpy() - expected).max()) <= TOLERANCE * float(np.abs(expected).max())


if __name__ == "__main__":
    warm("llvm")
    print(json.dumps(run_selfcheck()))
