"""The same way of timing for every peer."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WARM_UP = 2
"""Fewest runs before numbers of threads are distinguished."""
WARM_UP_SHARE = 0.1
"""Share of the time for samples: warm-up runs go on for so long where runs are short."""
MIN_SAMPLES, MAX_SAMPLES = 5, 2000
BFLOAT16_BYTES = 2
TASKS = Path("/proc/self/task")
"""Linux's threads of this process."""
RunModel = Callable[[], Sequence[Any]]
"""Runs the model once on the prepared inputs; returns its outputs in order.

They are arrays, or tensors of which ``numpy()`` makes arrays; that copy is not timed, for no other runtime makes one.
"""


@dataclass(frozen=True)
class PeerRun:
    """What a peer's process is asked to do; all paths are files.

    Attributes:
        model: what the peer reads.
        inputs: ``.npz`` of the inputs by name, in the model's order.
        outputs: ``.npz`` to write, arrays ``0``, ``1``, …
        seconds: how long to time.
        threads: threads to run on.
        special: inputs with NaN and infinity, to be run once for outputs beside the others, ``.special.npz``; empty:
            there are none.
    """

    model: str
    inputs: str
    outputs: str
    seconds: float
    threads: int
    special: str = ""


Prepare = Callable[[str, Mapping[str, NDArray[Any]], int], RunModel]
"""Reads a model, takes inputs and a number of threads."""


class Timing:
    """A model that was loaded and ran once, whose outputs are written; then it can be timed.

    Args:
        job: job to time; its ``seconds`` do not matter here.
        prepare: the runtime's ``prepare``.
    """

    def __init__(self, job: PeerRun, prepare: Prepare) -> None:
        self._cores = sorted(os.sched_getaffinity(0))  # now: a runtime may leave this thread a single one
        self._run = _ran(job, prepare, job.inputs, job.outputs)

    def samples(self, seconds: float) -> list[float]:
        """Seconds of single runs, for so many seconds after some to warm up."""
        with each_busy_thread_bound(self._cores):
            warmed = time.perf_counter() + WARM_UP_SHARE * seconds
            for count in itertools.count(1):
                self._run()
                if count >= WARM_UP and time.perf_counter() >= warmed:
                    break
        found: list[float] = []
        end = time.perf_counter() + seconds
        while len(found) < MIN_SAMPLES or (time.perf_counter() < end and len(found) < MAX_SAMPLES):
            started = time.perf_counter()
            self._run()
            found.append(time.perf_counter() - started)
        return found


def measure(job: PeerRun, prepare: Prepare) -> dict[str, Any]:
    """Load, run once for the outputs, then time; returns ``{"samples": [seconds, …]}``."""
    samples = Timing(job, prepare).samples(job.seconds)
    if job.special:
        _ran(job, prepare, job.special, f"{job.outputs}.special.npz")
    return {"samples": samples}


def _ran(job: PeerRun, prepare: Prepare, inputs: str, outputs: str) -> RunModel:
    """The model, prepared on inputs and run once on them; its outputs are written."""
    with np.load(inputs) as file:
        arrays = {name: _typed(file[name]) for name in file.files}
    run = prepare(job.model, arrays, job.threads)
    found = [_plain(np.asarray(value.numpy() if hasattr(value, "numpy") else value)) for value in run()]
    np.savez(outputs, **{str(i): value for i, value in enumerate(found)})  # type: ignore[arg-type]
    return run


def _typed(array: NDArray[Any]) -> NDArray[Any]:
    """NumPy's file format keeps of bfloat16 its bytes alone."""
    if array.dtype.kind != "V" or array.dtype.itemsize != BFLOAT16_BYTES:
        return array
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """In a type of NumPy's own: all numbers of bfloat16 are ones of float32."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


@contextlib.contextmanager
def each_busy_thread_bound(cores: Sequence[int]) -> Iterator[None]:
    """Give the threads that work most inside of the block a core each, for good.

    Two threads of one runtime may otherwise share a core for as long as a measurement takes while another core idles: a
    worker that its runtime has bound cannot move, and the main thread, which could, never waits in a queue.
    """
    before = _worked()
    yield
    after = _worked()
    busiest = sorted(after, key=lambda thread: after[thread] - before.get(thread, 0), reverse=True)
    for thread, core in zip(busiest, cores, strict=False):
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(thread, {core})


def _worked() -> dict[int, int]:
    """Nanoseconds that each thread of this process has run; nothing where the system does not tell."""
    found = {}
    for task in TASKS.glob("*/schedstat"):
        with contextlib.suppress(OSError):
            found[int(task.parent.name)] = int(task.read_text().split()[0])
    return found


def serve(module: str, body: str) -> None:
    """The process of one peer, a module with ``prepare``: a job as JSON in, the answer as a file beside the outputs."""
    job = PeerRun(**json.loads(body))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.threads])
    Path(f"{job.outputs}.json").write_text(json.dumps(measure(job, importlib.import_module(module).prepare)))


if __name__ == "__main__":
    serve(*sys.argv[1:])
