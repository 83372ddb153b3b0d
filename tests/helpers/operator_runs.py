"""Candidates of a small operator, and a recorded run of MetaSchedule that one of them won."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.operators import recordings
from benchmarks.operators.onnx_models import write_operator
from benchmarks.operators.recordings import Recording
from benchmarks.tuners.outcome import Trial
from benchmarks.tuners.plan import Ask
from tunesmith.preparation import PLAIN
from tunesmith.targets import Target
from tunesmith.types import Candidate
from workers.tvm_backend.build.local_model import LocalModel, local_target


def sampled(module: bytes, target: Target, count: int = 3, name: str = "all") -> tuple[Any, list[Candidate], Any]:
    """The only function of a prepared module, candidates of it, and the space of that name that they are of."""
    from workers.tvm_backend.design_space import space
    from workers.tvm_backend.passes import extract_tasks

    (task,) = extract_tasks.extract_tasks(module)
    traces = space.TraceSpace(task.module, target, space.generate(task.module, target, name))
    resolved, valid = traces.resolve(traces.space.sample(np.random.default_rng(0), 64))
    return task, traces.space.candidates(resolved.take(valid))[:count], traces


def recorded_run(
    operator: str, tuner: str, trials: Sequence[Trial], folder: Path
) -> tuple[Ask, Recording, list[Candidate]]:
    """A run of seed 0 on one thread that was won by the first of the candidates.

    Args:
        trials: their times are those of the run.
        folder: to be made.
    """
    target = local_target("cpu:1")
    folder.mkdir()
    path = write_operator(operator, folder / "operator.onnx")
    task, found, traces = sampled(LocalModel(str(path), {}, folder, PLAIN).module, target, name="tvm")
    ask = recordings.ask_for(operator, target, tuner, 0)
    outcome = ask.outcome(
        startup=2.0,
        elapsed=trials[-1].at,
        trials=tuple(trials),
        workload=task.workload.hash,
        trace=traces.trace(found[0]),
    )
    return ask, Recording(outcome, {"apache-tvm": "0"}), found
