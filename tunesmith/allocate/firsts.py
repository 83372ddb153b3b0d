"""What the first round of a task is expected to save the model, told from the tasks that had theirs. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tunesmith.allocate.base import TaskView
from tunesmith.allocate.pairs import contenders, expected_improvement
from tunesmith.space.base import Bools, Floats, Ints

DOUBT = 0.5
"""Standard deviation of the logarithm of a task's latency about what the speed of its relatives lets expect."""
LITTLE = 0.25
"""Quantile of what first rounds saved that one saves of which nothing can be told."""


def first_gains(tasks: Sequence[TaskView], latency: Floats) -> Mapping[int, float]:
    """Seconds that the first round is expected to save, by place of the tasks that had none; empty while nothing is
    known of any task.

    A task is taken to gain in proportion to its operations, as much as its relatives did in the mean, or all tasks
    where there are none. Where its place has a tuned program already, that is to be beaten: what counts is the expected
    improvement, if its latency is about its operations times what they take its relatives in the median; and no less
    than the least that a first round brought, because without it nobody knows what the model takes untuned. Of a task
    that is not known to have any operations nothing can be told: it is taken to gain little for a first round.

    Args:
        latency: present, in seconds, float64 [tasks], infinite without a valid one.
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
    relatives, other = _relatives(tasks, known & (flops > 0)), contenders(tasks, latency)
    found = {}
    for at in waiting:
        like = relatives(at)
        told = flops[at] > 0 and len(like) > 0
        if math.isfinite(other[at]):
            expected = flops[at] * np.median(latency[like] / flops[like]) if told else other[at]
            better = float(weight[at] * expected_improvement(float(other[at]), float(expected), DOUBT))
            found[at] = max(better, least)
        else:
            found[at] = float(weight[at] * flops[at] * np.mean(saved[like] / flops[like])) if told else little
    return found


def _relatives(tasks: Sequence[TaskView], counted: Bools) -> Callable[[int], Ints]:
    """A function that tells the places of a task's relatives among those that count; of all those without any."""
    families, everyone = np.array([task.family for task in tasks]), np.flatnonzero(counted)

    def of(at: int) -> Ints:
        found = np.flatnonzero(counted & (families == families[at]))
        return found if len(found) else everyone

    return of
