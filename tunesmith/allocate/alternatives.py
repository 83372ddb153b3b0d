"""Tasks that contend for one place in the model. Pure.

A convolution may be computed directly or by Winograd's algorithm: two tasks, of which the model runs the faster one
(see ``tunesmith.alternatives``). What the slower one gains is worth something only as far as it overtakes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tunesmith.allocate.base import TaskView
from tunesmith.space.base import Bools, Floats, Ints

Places = Sequence[Sequence[int]]
"""The contending tasks, by their numbers."""


def places(tasks: Sequence[TaskView]) -> Places:
    """Who contends with whom, each place once; none for a task that is alone at its place."""
    members: dict[int, list[int]] = {task.alternative_of: [] for task in tasks if task.alternative_of is not None}
    for at, task in enumerate(tasks) if members else ():
        place = task.id if task.alternative_of is None else task.alternative_of
        if place in members:
            members[place].append(at)
    return list(members.values())


def contenders(found: Places, latency: Floats) -> Floats:
    """The best latency of the others at each task's place, float64 [tasks]; infinite where there are none.

    Args:
        found: see :func:`places`.
        latency: present, in seconds, float64 [tasks], infinite without a valid one.
    """
    other = np.full(len(latency), math.inf)
    for group in found:
        for at in group:
            other[at] = min((latency[one] for one in group if one != at), default=math.inf)
    return other


def first_round_in_flight(found: Places, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Bools:
    """Whether another one at the task's place is having its first round, bool [tasks].

    Args:
        found: see :func:`places`.
        in_flight: rounds under way by task id.
    """
    out = np.zeros(len(tasks), dtype=np.bool_)
    for group in found:
        first = [at for at in group if not tasks[at].history and in_flight.get(tasks[at].id, 0) > 0]
        for at in group:
            out[at] = any(one != at for one in first)
    return out


def shared_first_gains(found: Places, waiting: Ints, gains: Floats, latency: Floats) -> Floats:
    """What first rounds are expected to save where no program of a place is known: as much as the one that saves most.
    Whichever is the first, it replaces the default schedule of the direct one.

    Args:
        found: see :func:`places`.
        waiting: numbers of the tasks that had no round, int64 [waiting].
        gains: in seconds, float64 [waiting].
        latency: see :func:`contenders`.
    """
    out: Floats = gains.copy()
    at = {task: number for number, task in enumerate(waiting.tolist())}
    for group in found:
        here = [at[task] for task in group if task in at]
        if here and not np.isfinite(latency[group]).any():
            out[here] = gains[here].max()
    return out


def expected_improvement(best: float, median: float, deviation: float) -> float:
    """Expectation of ``max(0, best - x)`` where x is log-normal: ``median``, and the ``deviation`` of its logarithm.

    After Jones et al., "Efficient global optimization", 1998.
    """
    ahead = (math.log(best) - math.log(median)) / deviation
    return best * _below(ahead) - median * math.exp(deviation**2 / 2) * _below(ahead - deviation)


def _below(z: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))
