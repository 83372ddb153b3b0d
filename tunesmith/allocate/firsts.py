"""What the first round of a task is expected to save the model, told from the tasks that had theirs. Pure."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.allocate.base import TaskView
from tunesmith.allocate.pairs import expected_improvement
from tunesmith.space.base import Floats

DOUBT = 0.5
"""Standard deviation of the logarithm of a task's latency about what the speed of its relatives lets expect."""
LITTLE = 0.25
"""Quantile of what first rounds saved that one saves of which nothing can be told."""


def first_gains(tasks: Sequence[TaskView], latency: Floats, other: Floats) -> Mapping[int, float]:
    """Seconds that the first round is expected to save, by place of the tasks that had none; empty while nothing is
    known of any task.

    A task is taken to gain in proportion to its operations, as much as its relatives did in the mean, or all tasks
    where there are none. Where its place has a tuned program already, that is to be beaten: what counts is the expected
    improvement, if its latency is about its operations times what they take its relatives in the median; and no less
    than the least that a first round brought, because without it nobody knows what the model takes untuned. Of a task
    that is not known to have any operations others of its family tell what a first round saves, in the mean; where none
    of them is known, it is taken to gain little for a first round.

    Args:
        latency: present, in seconds, float64 [tasks], infinite without a valid one.
        other: the best of the others at each task's place, see :func:`tunesmith.allocate.pairs.contenders`.
    """
    known = np.isfinite(latency)
    waiting = [at for at, task in enumerate(tasks) if not task.history and not known[at]]
    if not waiting or not known.any():
        return {}
    flops, weight = (np.array([getattr(task, name) for task in tasks]) for name in ("flops", "weight"))
    start = np.array([0.0 if task.untuned is None else task.untuned for task in tasks])
    saved = np.maximum(start - np.where(known, latency, np.inf), 0.0)
    brought = (saved * weight)[saved > 0]
    least, little = np.quantile(brought, (0.0, LITTLE)).tolist() if len(brought) else (0.0, 0.0)
    paces, idle = _paces(tasks, flops, latency, saved), _idle(tasks, flops, latency, saved)
    found = {}
    for at in waiting:
        pace = paces(tasks[at].family) if flops[at] > 0 else None
        if math.isfinite(other[at]):
            expected = pace.takes * flops[at] if pace is not None else other[at]
            better = float(weight[at] * expected_improvement(float(other[at]), float(expected), DOUBT))
            found[at] = max(better, least)
        elif pace is not None:
            found[at] = float(weight[at] * flops[at] * pace.saved)
        elif tasks[at].family in idle:
            found[at] = float(weight[at] * idle[tasks[at].family])
        else:
            found[at] = little
    return found


def _idle(tasks: Sequence[TaskView], flops: Floats, latency: Floats, saved: Floats) -> Mapping[str, float]:
    """Seconds that first rounds of tasks without operations saved in the mean, by family."""
    found: dict[str, list[float]] = {}
    for at in np.flatnonzero(np.isfinite(latency) & (flops <= 0)).tolist():
        found.setdefault(tasks[at].family, []).append(float(saved[at]))
    return {family: sum(each) / len(each) for family, each in found.items()}


@dataclass(frozen=True)
class _Pace:
    """Of some tasks: seconds that an operation takes, in the median, and that the first round saved of it, in the
    mean."""

    takes: float
    saved: float


def _paces(
    tasks: Sequence[TaskView], flops: Floats, latency: Floats, saved: Floats
) -> Callable[[str], _Pace | None]:
    """A function that tells the pace of a family: that of all tasks where none of its own is known, None without any.

    Args:
        flops, latency, saved: of the tasks, float64 [tasks].
    """
    everyone = np.flatnonzero(np.isfinite(latency) & (flops > 0))
    members: dict[str, list[int]] = {}
    for at in everyone.tolist():
        members.setdefault(tasks[at].family, []).append(at)

    @functools.cache
    def pace(family: str) -> _Pace | None:
        like = np.array(members.get(family, everyone), dtype=np.int64)
        if not len(like):
            return None
        return _Pace(float(np.median(latency[like] / flops[like])), float(np.mean(saved[like] / flops[like])))

    return pace
