"""What no allocator can beat by much: rounds given away by someone who knows every curve to its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.allocation.curves import TaskCurve
from benchmarks.allocation.replay import ReplayedRun, course, latencies
from services.coordinator.scheduling.snapshot import ROUND_SIZE
from tunesmith.alternatives import in_use
from tunesmith.space.base import Floats

NAME = "hindsight"


class _Segment(NamedTuple):
    """Candidates of a task that are worth being measured together.

    ``slope``: seconds of the model saved for a second of tuning; ``end``: the candidate after the last one;
    ``seconds``: that they take.
    """

    slope: float
    task: int
    end: int
    seconds: float


def hindsight(tasks: Sequence[TaskCurve]) -> ReplayedRun:
    """Always the candidates that save the model most for a second of tuning, as many at once as it takes to save that.

    That is the concave envelope of each curve, and the segments of all envelopes by their slopes. Of a pair of
    alternatives only the one that is the faster in the end has rounds.
    """
    used = in_use(latencies(tasks))
    segments = sorted((one for at in used for one in _segments(at, tasks[at])), key=lambda one: -one.slope)
    ends = np.cumsum([one.seconds for one in segments])
    return course(tasks, [(one.task, one.end) for one in segments], ends.tolist())


def _segments(at: int, task: TaskCurve) -> list[_Segment]:
    """Of a task, in its candidates' order; steepest first."""
    start = task.untuned if task.untuned is not None else next((best for best in task.bests if best is not None), 0.0)
    bests = [start, *(start if best is None else best for best in task.bests)]
    saved = task.weight * np.maximum(0.0, start - np.array(bests))
    found, here, steepest = list[_Segment](), 0, np.inf
    while here < len(task.bests):
        spent = _spent(task, here)
        slopes = (saved[here + 1 :] - saved[here]) / spent
        best = int(np.argmax(slopes))
        if slopes[best] <= 0:
            break
        # Rounds cost differently: what is steeper than the segment before it comes right after that.
        steepest, here = min(steepest, float(slopes[best])), here + best + 1
        found.append(_Segment(steepest, at, here, float(spent[best])))
    return found


def _spent(task: TaskCurve, begin: int) -> Floats:
    """Seconds of the candidates from ``begin`` to each later one, float64 [candidates], in rounds of the usual size."""
    seconds: Floats = np.cumsum(np.array(task.seconds[begin:]))
    for start in range(begin, len(task.seconds), ROUND_SIZE):
        seconds[start - begin :] += task.took(start, start)
    return seconds
