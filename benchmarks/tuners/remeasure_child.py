"""The best schedules of several tuners, timed in turn: ``python -m benchmarks.tuners.remeasure_child JOB ANSWER``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.child import answer, there_and_back, use_cores
from benchmarks.tuners.outcome import UNTUNED
from tunesmith.targets import Target

SAMPLE_SECONDS = 0.03
SLOW = 20.0
"""The default schedule may be a thousand times slower: beyond this factor it is timed three times only."""


@dataclass(frozen=True)
class Job:
    """What to time.

    Attributes:
        operator: its spec.
        target: target JSON.
        traces: MetaSchedule traces, JSON text, by tuner.
        repeats: samples of each.
        folder: for the libraries.
    """

    operator: str
    target: dict[str, Any]
    traces: Mapping[str, str]
    repeats: int
    folder: str


def measure(job: Job) -> dict[str, Any]:
    """Samples in seconds and errors by tuner, and what one run computes and touches."""
    target = Target(job.target)
    use_cores(target.num_cores)  # as on the device that they were tuned on
    import tvm

    from benchmarks.harness.operators import program
    from workers.tvm_backend.arguments import random_array

    task = program(job.operator, target)
    arrays = [random_array(spec, number) for number, spec in enumerate(task.workload.args)]
    functions = _built(job, tvm.ir.load_json(task.module.decode()))
    outputs, arguments = {}, {}
    for name, function in functions.items():
        tensors = [tvm.runtime.tensor(array) for array in arrays]
        function["main"](*tensors)
        outputs[name], arguments[name] = tensors[-1].numpy(), tensors
    samples = _timed(functions, arguments, job.repeats)
    reference = outputs[UNTUNED].astype("float64")
    errors = {name: _error(value.astype("float64"), reference) for name, value in outputs.items() if name != UNTUNED}
    touched = float(sum(array.nbytes for array in arrays))
    return {"samples": samples, "errors": errors, "flops": task.workload.flops, "bytes": touched}


def _built(job: Job, mod: Any) -> dict[str, Any]:
    import tvm
    from tvm.s_tir import Schedule, Trace
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    from workers.tvm_backend.build.linking import link

    target = tvm.target.Target(job.target)
    functions = {}
    for name, trace in {UNTUNED: None, **job.traces}.items():
        schedule = Schedule(mod)
        if trace is not None:
            Trace.apply_json_to_schedule(json.loads(trace), schedule)
        objects, library = (Path(job.folder) / f"{name}{suffix}" for suffix in (".o", ".so"))
        ready = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(schedule.mod)
        tvm.compile(ready, target=target).mod.write_to_file(str(objects))
        link([objects], library)
        functions[name] = tvm.runtime.load_module(str(library))
    return functions


def _timed(functions: Mapping[str, Any], arguments: Mapping[str, list[Any]], repeats: int) -> dict[str, list[float]]:
    """Samples of each, taken in turn."""
    import tvm

    def once(name: str, number: int) -> float:
        timer = functions[name].time_evaluator("main", tvm.cpu(), number=number, repeat=1)
        return float(timer(*arguments[name]).results[0])

    first = {name: once(name, 1) for name in functions}
    numbers = {name: max(1, int(SAMPLE_SECONDS / max(seconds, 1e-9))) for name, seconds in first.items()}
    fastest = min(first.values())
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for turn, name in there_and_back(list(functions), repeats):
        if first[name] <= SLOW * fastest or turn < 3:
            samples[name].append(once(name, numbers[name]))
    return samples


def _error(found: Any, expected: Any) -> float:
    return float(np.abs(found - expected).max(initial=0.0) / max(np.abs(expected).max(initial=0.0), 1e-30))


if __name__ == "__main__":
    answer(Job, measure)
