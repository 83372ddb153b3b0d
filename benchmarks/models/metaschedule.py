"""MetaSchedule's own tuning of a model, for a given time: ``python -m benchmarks.models.metaschedule JOB``.

Its builder, runner, cost model, search and task scheduler are TVM's own with their defaults. Only the end is added:
when the time is over, every measured round goes into the database, also those that TVM would have put there the next
time that it picks their task, and the process ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DONE = "done.json"
MANY = 1_000_000
SEARCH_SECONDS = 60.0
"""Waited at the end for a search to come to its build; one takes a few."""


@dataclass(frozen=True)
class Job:
    """What to tune, and how.

    Attributes:
        module: file with a prepared module's JSON.
        target: target JSON.
        folder: an empty folder for the database; ``done.json`` appears there at the end.
        seconds: wall time, counted from the start of this process.
        per_round: candidates a round.
        seed: of the search.
    """

    module: str
    target: dict[str, Any]
    folder: str
    seconds: float
    per_round: int
    seed: int


class Gate:
    """Held by the tuner while it searches, left open while it builds and runs: the database is at rest then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def __enter__(self) -> None:
        self._lock.release()

    def __exit__(self, *_: object) -> None:
        self._lock.acquire()

    def close(self, wait: float) -> None:
        """Wait until the tuner builds or runs, at most ``wait`` seconds, and keep it from going on."""
        self._lock.acquire(timeout=wait)


def tune(job: Job) -> None:
    """Tune until the time is over; never returns, ends the process."""
    started = time.monotonic()
    import tvm
    from tvm.s_tir import meta_schedule as ms

    gate, scheduler = Gate(), ms.task_scheduler.GradientBased(seed=job.seed)
    threading.Thread(target=_end, args=(gate, scheduler, job, started), daemon=True).start()
    workers = ms.utils.cpu_count(logical=False)
    ms.relax_integration.tune_relax(
        tvm.ir.load_json(Path(job.module).read_text()),
        {},
        tvm.target.Target(job.target),
        job.folder,
        max_trials_global=MANY,
        num_trials_per_iter=job.per_round,
        builder=_gated(gate, ms.builder.PyBuilder, ms.builder.Builder.create("local", max_workers=workers), "build"),
        runner=_gated(gate, ms.runner.PyRunner, ms.runner.Runner.create("local", max_workers=workers), "run"),
        task_scheduler=scheduler,
        seed=job.seed,
    )
    _finish(job, started)


def _gated(gate: Gate, base: type, stock: Any, method: str) -> Any:
    """``stock``, which leaves the gate open during its method."""
    from tvm.ir.utils import derived_object

    def call(_: Any, given: Any) -> Any:
        with gate:
            return getattr(stock, method)(given)

    return derived_object(type("Gated", (base,), {method: call}))()


def _end(gate: Gate, scheduler: Any, job: Job, started: float) -> None:
    """Wait for the end of the time, put away what was measured, end everything."""
    time.sleep(max(0.0, job.seconds - (time.monotonic() - started)))
    gate.close(wait=SEARCH_SECONDS)
    try:
        for index, task in enumerate(scheduler.tasks_):
            if task.runner_futures is not None:
                scheduler.join_running_task(index)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # the tuner waits at the gate
    _finish(job, started)


def _finish(job: Job, started: float) -> None:
    (Path(job.folder) / DONE).write_text(json.dumps({"seconds": time.monotonic() - started}))
    os._exit(0)  # the search is in the middle of something; whoever started this process ends its workers


if __name__ == "__main__":
    tune(Job(**json.loads(sys.argv[1])))
