"""MetaSchedule's ``tune_tir`` in a process of its own: ``python -m benchmarks.tuners.metaschedule_child JOB``.

Builder, runner, cost model, search and scheduler are TVM's own with their defaults; it tells what it does by lines of
JSON in a file. Times are of ``time.monotonic``, which all processes of a machine share.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

MANY = 1_000_000


@dataclass(frozen=True)
class Job:
    """What to tune, and how.

    Attributes:
        operator: an operator spec.
        target: target JSON.
        threads: cores of the target: builders, and threads of the search and the cost model.
        per_round: candidates a round.
        seed: of the search.
        folder: for the database.
        events: the file to write to.
        trials: most candidates.
    """

    operator: str
    target: dict[str, Any]
    threads: int
    per_round: int
    seed: int
    folder: str
    events: str
    trials: int = MANY


def tune(job: Job) -> None:
    """Tune until killed, or until the space is used up."""
    import tvm
    import tvm.s_tir.tensor_intrin  # every process of MetaSchedule pays for it: here before the clock starts
    from tvm.s_tir import meta_schedule as ms

    from benchmarks.harness.operators import program
    from benchmarks.tuners import evaluator
    from tunesmith.targets import Target

    task = program(job.operator, Target(job.target))
    builder = ms.builder.LocalBuilder(max_workers=job.threads)
    runner = ms.runner.LocalRunner(f_run_evaluator=evaluator.run)
    with Path(job.events).open("a", encoding="utf-8") as file, ms.Profiler() as profiler:
        stock = list(ms.measure_callback.MeasureCallback.create("default"))
        callbacks = [stock[0], _reporter(file, profiler), *stock[1:]]  # when the database has the round
        _tell(file, "ready", hash=task.workload.hash)
        ms.tir_integration.tune_tir(
            tvm.ir.load_json(task.module.decode()),
            tvm.target.Target(job.target),
            job.folder,
            job.trials,
            num_trials_per_iter=job.per_round,
            builder=builder,
            runner=runner,
            measure_callbacks=callbacks,
            num_tuning_cores=job.threads,
            seed=job.seed,
        )
        _tell(file, "end", profile=_seconds(profiler))


def _reporter(file: TextIO, profiler: Any) -> Any:
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    @derived_object
    class Reporter(ms.measure_callback.PyMeasureCallback):  # type: ignore[misc]
        """Tells of each round: latencies, programs that came before, and the trace when it has a new best."""

        def __init__(self) -> None:
            super().__init__()
            self.seen: set[int] = set()
            self.best = float("inf")

        def apply(self, scheduler: Any, task: int, candidates: Any, builds: Any, runs: Any) -> None:
            now = time.monotonic()
            results, trace = [], None
            for candidate, run in zip(candidates, runs, strict=True):
                latency = None if run.run_secs is None else statistics.median(map(float, run.run_secs))
                results.append([latency, self._duplicate(candidate.sch.mod)])
                if latency is not None and latency < self.best:
                    self.best, trace = latency, _trace(candidate.sch)
            _tell(
                file,
                "round",
                at=now,
                results=results,
                trace=trace,
                profile=_seconds(profiler),
                spent=time.monotonic() - now,
            )

        def _duplicate(self, mod: Any) -> bool:
            from tvm_ffi import structural_hash

            found = int(structural_hash(mod))
            known = found in self.seen
            self.seen.add(found)
            return known

    return Reporter()


def _trace(schedule: Any) -> str:
    from workers.tvm_backend.tir import trace_json

    return trace_json(schedule.trace)


def _seconds(profiler: Any) -> dict[str, float]:
    return {str(name): float(seconds) for name, seconds in profiler.get().items()}


def _tell(file: TextIO, kind: str, *, at: float | None = None, **values: Any) -> None:
    file.write(json.dumps({"kind": kind, "at": time.monotonic() if at is None else at, **values}) + "\n")
    file.flush()


if __name__ == "__main__":
    tune(Job(**json.loads(sys.argv[1])))
