"""What no allocator can beat by much: rounds given away by someone who knows every curve to its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.allocation.curves import TaskCurve
from benchmarks.allocation.replay import Course, course, latencies
from tunesmith.alternatives import in_use

NAME = "hindsight"


def hindsight(tasks: Sequence[TaskCurve]) -> Course:
    """Always the rounds that save the model most for a second of tuning, as many at once as it takes to save that.

    That is the concave envelope of each curve, and the segments of all envelopes by their slopes. Of a pair of
    alternatives only the one that is the faster in the end has rounds.
    """
    used = in_use(latencies(tasks))
    segments = sorted((segment for at in used for segment in _segments(at, tasks[at])), key=lambda found: -found[0])
    order = [at for _, at, rounds in segments for _ in range(rounds)]
    taken, done = list[float](), dict.fromkeys(range(len(tasks)), 0)
    for at in order:
        taken.append(tasks[at].seconds[done[at]])
        done[at] += 1
    return course(tasks, order, np.cumsum(taken).tolist())


def _segments(at: int, task: TaskCurve) -> list[tuple[float, int, int]]:
    """Of a task: seconds of the model saved for a second of tuning, the task, rounds; steepest first."""
    start = task.untuned if task.untuned is not None else next((best for best in task.bests if best is not None), 0.0)
    saved = [0.0] + [task.weight * max(0.0, start - (start if best is None else best)) for best in task.bests]
    spent = np.concatenate([[0.0], np.cumsum(task.seconds)])
    found, here = list[tuple[float, int, int]](), 0
    while here < len(task.bests):
        slopes = [(saved[to] - saved[here]) / (spent[to] - spent[here]) for to in range(here + 1, len(saved))]
        best = int(np.argmax(slopes))
        if slopes[best] <= 0:
            break
        found.append((slopes[best], at, best + 1))
        here += best + 1
    return found
