"""What a decision of each allocator takes."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from tunesmith.allocate.base import TaskView
from tunesmith.allocate.registry import ALLOCATORS, make_allocator
from tunesmith.space.base import Floats

DECISIONS = 200
MOST_ROUNDS = 30
JOBS = 10
"""Among which the tasks are divided; and once they are all of one job."""


def decide(tasks: int, decisions: int = DECISIONS) -> Mapping[tuple[str, int], Floats]:
    """Wall seconds of each decision, float64 [decisions], by allocator and tasks of the job.

    Each one sees the histories as they are after the one before; the tasks have had up to ``MOST_ROUNDS`` rounds.
    """
    return {
        (name, size): _timed(name, size, decisions) for size in (max(1, tasks // JOBS), tasks) for name in ALLOCATORS
    }


def _timed(name: str, size: int, decisions: int) -> Floats:
    rng = np.random.default_rng(0)
    views = [_task(rng, i) for i in range(size)]
    flying = {int(i): 1 for i in rng.integers(0, size, size // 10)}
    out = np.empty(decisions)
    for at in range(decisions):
        started = time.perf_counter()
        choice = make_allocator(name, 0).choose(views, flying)
        out[at] = time.perf_counter() - started
        assert choice is not None
        last = views[choice.task]
        views[choice.task] = _with(last, (*last.history, last.history[-1] * float(np.exp(-rng.exponential(0.05)))))
    return out


def _task(rng: np.random.Generator, number: int) -> TaskView:
    curve = np.exp(-np.cumsum(rng.exponential(0.3, rng.integers(1, MOST_ROUNDS)))) * 1e-2
    return TaskView(
        id=number,
        weight=float(rng.integers(1, 9)),
        flops=float(rng.lognormal(18.0, 1.5)),
        family=f"family {number % 25}",
        untuned=2e-2,
        history=tuple(curve.tolist()),
        trials=16 * len(curve),
        seconds=float(rng.lognormal(2.0, 0.5)),
    )


def _with(task: TaskView, history: tuple[float, ...]) -> TaskView:
    return TaskView(
        task.id, task.weight, task.flops, task.family, task.untuned, history, task.trials + 16, task.seconds
    )
