"""Whether TVM works here: ``python -m workers.tvm_backend.selfcheck`` compiles, links, runs and times a kernel.

Prints one line of JSON: the host, the threads in force, and the noise floor, that is the coefficient of variation of
ten measured values of one kernel that does not change.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workers.tvm_backend import linking
from workers.tvm_backend.host import describe
from workers.tvm_backend.warm import warm

SIZE = 192
SAMPLES = 10
SAMPLE_MS = 10


def _kernel() -> Any:
    from tvm import s_tir, te

    a = te.placeholder((SIZE, SIZE), name="a", dtype="float32")
    b = te.placeholder((SIZE, SIZE), name="b", dtype="float32")
    k = te.reduce_axis((0, SIZE), name="k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    schedule = s_tir.Schedule(te.create_prim_func([a, b, c]))
    rows, columns, depth = schedule.get_loops(schedule.get_sblock("c"))
    schedule.reorder(rows, depth, columns)
    schedule.parallel(rows)
    schedule.vectorize(schedule.split(columns, [None, 16])[1])
    return schedule.mod


def run() -> dict[str, Any]:
    """Compile, link, load, run and time.

    Raises:
        MissingDependency: nothing to link with.
    """
    import numpy as np
    import tvm
    import tvm_ffi

    host = describe()
    target = {"kind": "llvm", "mcpu": host.mcpu, "num-cores": host.cores}
    with tempfile.TemporaryDirectory(prefix="tunesmith-check-") as folder:
        objects, library = Path(folder) / "kernel.o", Path(folder) / "kernel.so"
        tvm.compile(_kernel(), target=target).mod.write_to_file(str(objects))
        linking.link([objects], library)
        module = tvm.runtime.load_module(str(library))
        arrays = [tvm.runtime.tensor(np.ones((SIZE, SIZE), "float32")) for _ in range(3)]
        evaluator = module.time_evaluator("main", tvm.cpu(), number=1, repeat=SAMPLES, min_repeat_ms=SAMPLE_MS)
        samples = [float(value) for value in evaluator(*arrays).results]
        right = bool((arrays[2].numpy() == SIZE).all())
    return {
        "host": asdict(host),
        "tvm_ffi": str(tvm_ffi.__version__),
        "threads": int(tvm.get_global_func("runtime.NumThreads")()),
        "right": right,
        "seconds": statistics.median(samples),
        "noise": statistics.stdev(samples) / statistics.mean(samples),
    }


if __name__ == "__main__":
    warm("llvm")
    print(json.dumps(run()))
