"""Whether more tuning is expected to be worth it. Pure."""

from __future__ import annotations

import numpy as np

from services.coordinator.scheduling.choose import open_tasks, views
from services.coordinator.scheduling.snapshot import JobSnapshot
from tunesmith.allocate.jumps import Curves, posterior_of
from tunesmith.allocate.table import Table
from tunesmith.alternatives import TaskLatency, in_use

CONVERGED_GAIN = 0.01
"""Share of the model's latency that the next rounds of a job which goes on save at least."""
LEAST_ROUNDS = 4
ROUNDS_PER_TASK = 2


def converged(job: JobSnapshot) -> bool:
    """True when the next rounds are expected to save almost nothing, whichever task has them.

    That is less than ``CONVERGED_GAIN`` of the model's latency, were ``ROUNDS_PER_TASK`` rounds for each task, and
    ``LEAST_ROUNDS`` at least, each as good as the best one that can be had now. What a round is expected to save is
    the belief of ``tunesmith.allocate.jumps``, as of the allocator ``bandit``. A job goes on while a task waits for its
    first round.
    """
    open_ = {task.id for task in open_tasks(job)}
    if any(task.id in open_ and not task.curve for task in job.tasks):
        return False
    latencies = {
        task.id: TaskLatency(task.weight, task.untuned, task.best, task.alternative_of)
        for task in job.tasks
        if task.tunable
    }
    used = in_use(latencies)
    total = sum(latencies[task].weight * (latencies[task].current or 0.0) for task in used)
    table = Table.of([view for view in views(job, open_) if view.id in used])
    curves = Curves.of(table.histories)
    share, _ = posterior_of(curves, table.family, flops=table.flops).saved(curves.rounds, np.zeros_like(curves.rounds))
    counts = ~table.exhausted & np.isfinite(curves.last)
    gains = share[counts] * table.weight[counts] * curves.last[counts]
    window = max(LEAST_ROUNDS, ROUNDS_PER_TASK * len(latencies))
    return total > 0 and window * float(gains.max(initial=0.0)) < CONVERGED_GAIN * total
