"""When a task is tried again of whose rounds none had a valid result. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tunesmith.allocate.base import TaskView
from tunesmith.allocate.warmup import importance
from tunesmith.space.base import Bools, Floats

MOST = 60.0
"""Doublings that are told apart."""


def due(had: Floats, flying: Floats, lacking: Bools) -> Bools:
    """The tasks to try again, bool [tasks].

    Nothing tells what another round would bring, and the model may take as long as this one task does; or nothing of
    its space runs, and every round is lost. The k-th try is due when the job has had ``2^(k-2)`` rounds for each of its
    tasks: so a hopeless task has as many rounds as the logarithm of the job's.

    Args:
        had, flying: rounds that each task has had, and is having, [tasks].
        lacking: whose place in the model has no valid program, bool [tasks].
    """
    ripe = 2.0 ** np.minimum(had - 1.0, MOST) <= had.sum() / max(len(had), 1)
    found: Bools = lacking & (had > 0) & (flying == 0) & ripe
    return found


def most_important(tasks: Sequence[TaskView], which: Bools) -> int:
    """Place of the one of ``which``, one at least, that may cost the model most; the first of equal ones."""
    places = [int(at) for at in np.flatnonzero(which)]
    costs = importance([tasks[at] for at in places])
    return max(places, key=lambda at: (costs[tasks[at].id], -at))
