"""What a session on a device of ours offers beside TVM's functions: where kernels run, and a single timed call."""

from __future__ import annotations

import os
import time
from typing import Any

ONE_CORE_PER_THREAD = -2
"""``kSpecifyOneCorePerThread`` of TVM's thread pool."""


def bind(count: int) -> str:
    """Run this session's kernels with ``count`` threads, one to a core; call it before the first kernel.

    The last cores that the process may use are taken: where some are left over, interrupts and other programs have
    the first. TVM lets its main thread wander over all of them, on to a core where a worker waits: it is bound, too.

    Returns:
        The cores, e.g. ``2,3``.
    """
    import tvm_ffi

    cores = sorted(os.sched_getaffinity(0))[-int(count):]
    os.environ["TVM_NUM_THREADS"] = str(int(count))
    if len(cores) < count:  # more threads than cores: nothing to bind to
        return ",".join(map(str, cores))
    names = [str(core) for core in cores]
    tvm_ffi.get_global_func("runtime.config_threadpool")(ONE_CORE_PER_THREAD, len(cores), names)
    os.sched_setaffinity(0, {cores[0]})
    return ",".join(names)


def once(module: Any, function: str, *arguments: Any) -> float:
    """Seconds of a single call on a CPU, without the warm-up call that TVM's evaluator makes before."""
    kernel = module[function]
    started = time.perf_counter()
    kernel(*arguments)
    return time.perf_counter() - started
