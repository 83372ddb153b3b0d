"""The best-so-far latency of a job's model against what was spent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Annotated

from fastapi import Query
from sqlalchemy.orm import Session

from db.models import Job
from db.queries import jobs
from db.queries import sums as sum_rows
from db.queries.task_columns import detailed
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.curve import MAX_POINTS, Places, best_so_far, sampled, without_round
from services.coordinator.scheduling.history import Histories
from services.coordinator.usecases.jobs import visible
from tunesmith.answers.curves import CurveBody, CurvePoint


def curve(
    context: InContext, caller: InCaller, job_id: str, points: Annotated[int, Query(ge=2, le=2000)] = MAX_POINTS
) -> CurveBody:
    """Estimated latency of the model as each finished round's best was known; none until every task has a latency.

    It begins with the champions that earlier jobs left, or else with the default schedules, at rough latencies of those
    that had no round yet; what other jobs find since counts when it is taken over. A task that never gave a latency is
    left out, see :func:`best_so_far`.
    """
    with context.reading() as session:
        job = visible(session, caller, job_id)
        if points != MAX_POINTS:
            return _curve(context.histories, session, job, points)
        return context.ended.curves.one(session, job_id, lambda: _curve(context.histories, session, job, points))


def _curve(histories: Histories, session: Session, job: Job, points: int) -> CurveBody:
    tasks = detailed(session, job.id)
    sums = sum_rows.of_columns(session, job.id, tasks)
    if sums.unknown or sums.untuned is None:
        return CurveBody(untuned=None, tasks=sums.tunable, tasks_measured=sums.measured, points=[])
    steps = [*histories.of(session, job.id).rounds, *jobs.adoptions(session, job.id)]
    initial, left = Places.of_columns(tasks, tasks.tunable), tasks.left()
    steps.sort(key=attrgetter("known_at"))
    values = list(best_so_far(initial, chain(left, map(attrgetter("task", "best"), steps))))
    begins = min(values[: len(left)], default=initial.total)
    rough = list(without_round(initial, {task for task, _ in left}, map(attrgetter("task"), steps)))
    line = _line(steps, values[len(left) :], rough[1:], job.started_at or job.created_at, points)
    first = CurvePoint(trials=0, seconds=0.0, device_seconds=0.0, latency=begins, tasks_rough=rough[0])
    return CurveBody(untuned=initial.total, tasks=sums.tunable, tasks_measured=sums.measured, points=[first, *line])


def _line(
    steps: Sequence[jobs.RoundStep], latencies: Sequence[float], rough: Sequence[int], began: dt.datetime, points: int
) -> Iterator[CurvePoint]:
    """What there is to draw after the first point, so that there are at most ``points`` with it."""
    trials = list(accumulate([step.measured - step.baseline if step.measured else 0 for step in steps]))
    device = list(accumulate(map(attrgetter("run_seconds"), steps)))
    for index in sampled(len(steps) + 1, points)[1:]:
        at = index - 1
        seconds = max(0.0, (steps[at].known_at - began).total_seconds())
        yield CurvePoint(
            trials=trials[at], seconds=seconds, device_seconds=device[at], latency=latencies[at], tasks_rough=rough[at]
        )
