"""What a session on a device server of Tunesmith offers besides TVM's functions, as ``tunesmith.rpc.<name>``."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tunesmith.types import TensorSpec, Values
from workers.tvm_backend.run.cold_weights import Ring
from workers.tvm_backend.run.references import initial
from workers.tvm_backend.run.restoring import run_restored

ONE_CORE_PER_THREAD = -2
"""``kSpecifyOneCorePerThread`` of TVM's thread pool."""


def register() -> None:
    """Offer them in the sessions of this process."""
    import tvm_ffi

    offered = {
        "alarm": alarm,
        "bind": bind,
        "once": once,
        "host": host_identity,
        "draw": draw,
        "digest": digest,
        "stream": Ring().run,
        "restored": run_restored,
    }
    for name, function in offered.items():
        tvm_ffi.register_global_func(f"tunesmith.rpc.{name}", function, override=True)


def offered(session: Any, name: str) -> Any:
    """A function of a session's device; None on a server that does not offer it."""
    try:
        return session.get_function(name)
    except Exception:  # whatever TVM raises where there is none
        return None


def tell_of_sessions(number: int, ends: Mapping[int, str]) -> None:
    """Offer the ``session``'s number, and how another one ``ended``: empty when that is not known."""
    import tvm_ffi

    for name, function in (("session", lambda: number), ("ended", lambda it: ends.get(int(it), ""))):
        tvm_ffi.register_global_func(f"tunesmith.rpc.{name}", function, override=True)


def alarm(seconds: float) -> None:
    """Kill this session's process ``seconds`` from now, wherever it hangs; 0 takes the alarm back."""
    signal.setitimer(signal.ITIMER_REAL, float(seconds))


def bind(count: int) -> str:
    """Run this session's kernels with ``count`` threads, one to a core; call it before the first kernel.

    The last cores that the process may use are taken: where some are left over, interrupts and other programs have
    the first. TVM lets its main thread wander over all of them, on to a core where a worker waits: it is bound, too.

    Returns:
        The cores, e.g. ``2,3``.
    """
    import tvm_ffi

    cores = sorted(os.sched_getaffinity(0))[-int(count) :]
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


def draw(tensor: Any, dtype: str, values: str, index: int, count: int, seed: int) -> None:
    """Put into a tensor what argument ``index`` of ``count`` holds before a run (``references.initial``).

    Args:
        values: JSON of the :class:`Values` that it may have, as a list; empty where they are not known.
    """
    known = Values(*json.loads(str(values))) if values else None
    args = (TensorSpec(str(dtype), tuple(map(int, tensor.shape)), values=known),) * int(count)
    tensor.copyfrom(initial(args, int(index), int(seed)))


def digest(tensor: Any) -> str:
    """SHA-256 of a tensor's contents."""
    return hashlib.sha256(tensor.numpy().reshape(-1).view("uint8")).hexdigest()


def host_identity() -> str:
    """The same text for two processes exactly when they run on one booted machine."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text(encoding="ascii").strip() if boot.exists() else socket.gethostname()
