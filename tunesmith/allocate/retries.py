"""When a task is tried again of whose rounds none had a valid result. Pure."""

from __future__ import annotations

import numpy as np

from tunesmith.allocate.table import Table
from tunesmith.space.base import Bools, Floats

MAX_DOUBLINGS = 60.0
"""Doublings that are distinguished."""


def retry_due(had: Floats, flying: Floats, lacking: Bools) -> Bools:
    """The tasks to try again, bool [tasks].

    Nothing tells what another round would bring, and the model may take as long as this one task does; or nothing of
    its space runs, and every round is lost. The k-th try is due when the job has had ``2^(k-2)`` rounds for each of its
    tasks: so a hopeless task has as many rounds as the logarithm of the job's. And it is tried only where all that it
    may save, :func:`largest_gain`, is more than what others are expected to.

    Args:
        had, flying: rounds that each task has had, and is having, [tasks].
        lacking: true where the task's place in the model has no valid program, bool [tasks].
    """
    ripe = 2.0 ** np.minimum(had - 1.0, MAX_DOUBLINGS) <= had.sum() / max(len(had), 1)
    found: Bools = lacking & (had > 0) & (flying == 0) & ripe
    return found


def largest_gain(tasks: Table, which: Bools) -> Floats:
    """Seconds of the model's latency that tasks may save at most, float64 [tasks]: all of their default schedules'.

    Infinite where that is not known, 0 for all but ``which``.
    """
    return np.where(which, tasks.weight * tasks.untuned, 0.0)
