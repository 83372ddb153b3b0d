"""What the first round of a task is expected to save the model, told from the tasks that had theirs. Pure."""

from __future__ import annotations

import numpy as np

from tunesmith.allocate.alternatives import expected_improvement
from tunesmith.allocate.jumps import quantiles
from tunesmith.allocate.table import Table
from tunesmith.space.base import Bools, Floats, Ints

DOUBT = 0.5
"""Standard deviation of the logarithm of a task's latency about what the speed of its relatives lets expect."""
LITTLE = 0.25
"""Quantile of what first rounds saved that one saves of which nothing can be told."""


def first_gains(tasks: Table, latency: Floats, other: Floats) -> tuple[Ints, Floats]:
    """The tasks that had no round and the seconds that it is expected to save; none while nothing is known of any task.

    A task is taken to gain in proportion to its operations, as much as its relatives did in the mean, or all tasks
    where there are none. Where its place has a tuned program already, that is to be beaten: what counts is the expected
    improvement, if its latency is about its operations times what they take its relatives in the median; and no less
    than the least that a first round brought, because without it nobody knows what the model takes untuned. Of a task
    that is not known to have any operations others of its family tell what a first round saves, in the mean; where none
    of them is known, it is taken to gain little for a first round, also of those that are expected of tasks with
    operations.

    Args:
        latency: present, in seconds, float64 [tasks], infinite without a valid one.
        other: the best of the others at each task's place, see :func:`tunesmith.allocate.alternatives.contenders`.

    Returns:
        Numbers of the tasks, int64 [waiting], and seconds, float64 [waiting].
    """
    known = np.isfinite(latency)
    waiting = np.flatnonzero(~known & np.array([not history for history in tasks.histories], dtype=np.bool_))
    if not len(waiting) or not known.any():
        return np.array([], dtype=np.int64), np.array([])
    saved = np.maximum(np.where(np.isfinite(tasks.untuned), tasks.untuned, 0.0) - latency, 0.0)
    brought = (saved * tasks.weight)[saved > 0]
    least, little = np.quantile(brought, (0.0, LITTLE)).tolist() if len(brought) else (0.0, 0.0)
    family, flops, weight = (column[waiting] for column in (tasks.family, tasks.flops, tasks.weight))
    busy = known & (tasks.flops > 0)
    idle = _mean(tasks.family, saved, known & ~busy)[family]
    found = np.where(np.isnan(idle), little, weight * idle)
    paced = (flops > 0) & busy.any()
    if paced.any():
        takes, each = (pace[family] for pace in _paces(tasks, latency, saved, busy))
        found = np.where(paced, weight * flops * each, found)
        found = np.where(paced | ~np.isnan(idle), found, np.minimum(found, np.quantile(found[paced], LITTLE)))
    for at in np.flatnonzero(np.isfinite(other[waiting])).tolist():
        best = float(other[waiting[at]])
        expected = float(takes[at] * flops[at]) if paced[at] else best
        found[at] = max(float(weight[at]) * expected_improvement(best, expected, DOUBT), least)
    return waiting, found


def _paces(tasks: Table, latency: Floats, saved: Floats, which: Bools) -> tuple[Floats, Floats]:
    """Seconds that an operation takes, in the median, and that the first round saved of it, in the mean. Both are by
    family, float64 [families], of all tasks where none of its own is known.

    Args:
        latency, saved: the tasks' latencies and gains, float64 [tasks].
        which: true for the tasks that count, at least one, bool [tasks].
    """
    family, flops = tasks.family[which], tasks.flops[which]
    pace, each = latency[which] / flops, _mean(tasks.family, saved / np.where(which, tasks.flops, 1.0), which)
    takes = np.full(len(each), np.median(pace))
    takes[family] = quantiles(pace, family, 0.5)
    return takes, np.where(np.isnan(each), np.mean(saved[which] / flops), each)


def _mean(family: Ints, values: Floats, which: Bools) -> Floats:
    """Means by family of the values that count, float64 [families], NaN where none does."""
    families = int(family.max()) + 1
    count = np.bincount(family[which], minlength=families)
    total = np.bincount(family[which], weights=values[which], minlength=families)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
