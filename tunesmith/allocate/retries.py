"""When a task is tried again of whose rounds none had a valid result. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tunesmith.allocate.base import TaskView
from tunesmith.allocate.warmup import importance
from tunesmith.space.base import Bools, Floats


def due(tasks: Sequence[TaskView], latency: Floats, other: Floats, in_flight: Mapping[int, int]) -> Bools:
    """The tasks to try again, bool [tasks].

    Nothing tells what another round would bring, and the model may take as long as this one task does; or nothing of
    its space runs, and every round is lost. The k-th try is due when the job has had ``2^(k-2)`` rounds for each of its
    tasks: so a hopeless task has as many rounds as the logarithm of the job's. One whose place in the model has a valid
    program is left alone.

    Args:
        latency: present, in seconds, float64 [tasks], infinite without a valid one.
        other: the best of the others at each task's place, see :func:`tunesmith.allocate.pairs.contenders`.
    """
    had = sum(len(task.history) for task in tasks) / max(len(tasks), 1)
    return np.array([
        bool(task.history) and not in_flight.get(task.id) and had >= 2.0 ** (len(task.history) - 1)
        and not math.isfinite(latency[at]) and not math.isfinite(other[at])
        for at, task in enumerate(tasks)
    ], dtype=np.bool_)  # fmt: skip


def most_important(tasks: Sequence[TaskView], which: Bools) -> int:
    """Place of the one of ``which``, one at least, that may cost the model most; the first of equal ones."""
    costs = importance([task for task, wanted in zip(tasks, which, strict=True) if wanted])
    places = [at for at, wanted in enumerate(which) if wanted]
    return max(places, key=lambda at: (costs[tasks[at].id], -at))
