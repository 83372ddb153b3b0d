"""What a job is expected to come to, from its budget and its tasks' learning curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from db import clock
from db.models import Job
from db.repositories import views_tasks as task_rows
from services.coordinator.auth import Caller
from services.coordinator.context import Context
from services.coordinator.scheduling.history import History
from services.coordinator.scheduling.snapshot import learning_curve
from services.coordinator.schemas.jobs import ForecastBody
from services.coordinator.usecases.describe import elapsed, eta
from services.coordinator.usecases.jobs import visible
from tunesmith.allocate import forecast as belief
from tunesmith.allocate.base import TaskView
from tunesmith.states import is_final


def forecast(context: Context, caller: Caller, job_id: str) -> ForecastBody:
    """Of a job as it stands; of one that is over, what it came to."""
    with context.reading() as session:
        now = clock.now(session)
        job = visible(session, caller, job_id)
        rows = task_rows.learners(session, job_id)
        history = context.histories.of(session, job_id)
        trials = task_rows.sums(session, [job_id]).get(job_id, task_rows.TaskSums()).trials
    seconds = eta(job, trials, elapsed(job, now), now)
    rounds = _rounds_left(job, trials, len(history.rounds), seconds, elapsed(job, now))
    found = belief.forecast(_tasks(rows, history), rounds or 0)
    end = found if rounds is not None else None
    return ForecastBody(
        seconds=seconds, rounds=rounds, current=found.current if found else None,
        expected=end.expected if end else None, low=end.low if end else None, high=end.high if end else None,
        level=belief.LEVEL,
    )  # fmt: skip


def _rounds_left(job: Job, trials: int, rounds: int, seconds: float | None, tuning: float) -> int | None:
    """Rounds until the first of the budget's limits, as large and as long as those so far; None without either."""
    if is_final(job.state):
        return 0
    if not rounds or not trials:
        return None
    limits = []
    if seconds is not None and tuning > 0:
        limits.append(seconds * rounds / tuning)
    if job.budget_trials is not None:
        limits.append(max(0, job.budget_trials - trials) * rounds / trials)
    return math.ceil(min(limits)) if limits else None


def _tasks(rows: Sequence[Any], history: History) -> list[TaskView]:
    """The tasks that the job's estimate sums up: in use as things stand, and not known to run nothing."""
    failing = {key for key, found in history.by_task.items() if math.isinf(found[-1])}
    return [
        TaskView(
            id=task.id, weight=task.weight, flops=task.flops, family=task.family, untuned=task.untuned_seconds,
            trials=task.trials, exhausted=task.exhausted,
            history=learning_curve(history.by_task.get(task.id, ()), task.known_seconds, task.best_seconds),
        )
        for task in rows
        if task.id not in failing or task.untuned_seconds is not None
    ]
