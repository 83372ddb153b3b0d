"""What a round is worth to a task that contends with another one for its place in the model. Pure.

A convolution may be computed directly or by Winograd's algorithm: two tasks, of which the model runs the faster one
(see ``tunesmith.alternatives``). What the slower one gains is worth something only as far as it overtakes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tunesmith.allocate.base import TaskView
from tunesmith.space.base import Floats

DOUBT = 0.5
"""Standard deviation of the logarithm of a task's latency about what the speed of its relatives lets expect."""


def contenders(tasks: Sequence[TaskView], latency: Floats) -> Floats:
    """The best latency of the others at each task's place, float64 [tasks]; infinite where there are none.

    Args:
        latency: present, in seconds, float64 [tasks], infinite without a valid one.
    """
    members: dict[int, list[int]] = {task.alternative_of: [] for task in tasks if task.alternative_of is not None}
    for at, task in enumerate(tasks) if members else ():
        place = task.id if task.alternative_of is None else task.alternative_of
        if place in members:
            members[place].append(at)
    other = np.full(len(tasks), math.inf)
    for group in members.values():
        for at in group:
            other[at] = min((latency[one] for one in group if one != at), default=math.inf)
    return other


def improvement(tasks: Sequence[TaskView], latency: Floats, other: Floats) -> Mapping[int, float]:
    """Seconds that a first round is expected to save, by place of the tasks without one that contend with a known one.

    The expected improvement (Jones et al., 1998) of a latency whose logarithm is normal: about the operations times the
    median seconds an operation of the relatives take, or of all tasks where there are none.
    """
    waiting = [at for at, task in enumerate(tasks) if math.isfinite(other[at]) and not task.history]
    if not waiting:
        return {}
    flops = np.array([task.flops for task in tasks])
    known = np.isfinite(latency) & (flops > 0)
    pace = np.divide(latency, flops, where=known, out=np.zeros(len(tasks)))
    families = np.array([task.family for task in tasks])
    found = {}
    for at in waiting:
        relatives = known & (families == families[at])
        like = pace[relatives if relatives.any() else known]
        expected = float(flops[at] * np.median(like)) if len(like) and flops[at] > 0 else float(other[at])
        found[at] = tasks[at].weight * expected_improvement(float(other[at]), expected)
    return found


def expected_improvement(best: float, median: float, deviation: float = DOUBT) -> float:
    """Expectation of ``max(0, best - x)`` where x is log-normal: ``median``, and the ``deviation`` of its logarithm."""
    ahead = (math.log(best) - math.log(median)) / deviation
    return best * _below(ahead) - median * math.exp(deviation**2 / 2) * _below(ahead - deviation)


def _below(z: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))
