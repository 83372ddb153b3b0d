"""What a job is expected to come to, from its budget and its tasks' learning curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from sqlalchemy.orm import Session

from db import clock
from db.models import Evaluation, Job
from db.queries import scheduling
from db.queries.task_columns import DetailedColumns, detailed, family_names
from services.coordinator import reference
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.scheduling.history import Histories, History
from services.coordinator.scheduling.snapshot import learning_curve
from services.coordinator.usecases.describe import elapsed, eta
from services.coordinator.usecases.jobs import visible
from tunesmith.allocate import forecast as belief
from tunesmith.allocate.table import Table
from tunesmith.answers.curves import ForecastBody
from tunesmith.measuring.ratio import Verdict
from tunesmith.space.base import Floats
from tunesmith.states import is_final

MAX_ROUNDS = 1 << 14
"""Rounds that are looked ahead."""


def forecast(context: InContext, caller: InCaller, job_id: str) -> ForecastBody:
    """Forecast a running job. A finished job gets what it came to."""
    with context.reading() as session:
        job = visible(session, caller, job_id)
        return context.ended.forecasts.one(session, job_id, lambda: _forecast(context.histories, session, job))


def _forecast(histories: Histories, session: Session, job: Job) -> ForecastBody:
    now = clock.now(session)
    tasks = detailed(session, job.id)
    families = family_names(session, job.id, tasks)
    history = histories.of(session, job.id)
    evaluation = scheduling.evaluation_of(session, job.id)
    trials = int(tasks.trials.sum())
    seconds = eta(job, trials, elapsed(job, now), now)
    rounds = _rounds_left(job, trials, len(history.rounds), seconds, elapsed(job, now))
    table = _table(tasks, families, history)
    found = belief.forecast_table(table, rounds or 0)
    end = found if rounds is not None else None
    return ForecastBody(
        seconds=seconds,
        rounds=rounds,
        current=found.current if found else None,
        expected=end.expected if end else None,
        low=end.low if end else None,
        high=end.high if end else None,
        level=belief.LEVEL,
        passes_reference_in=seconds_until_passing(table, evaluation, len(history.rounds), elapsed(job, now)),
    )


def seconds_until_passing(table: Table, evaluation: Evaluation | None, rounds: int, tuning: float) -> float | None:
    """Seconds of tuning until the model is expected to be as fast as its reference, rounds as long as those so far.

    What was measured differs from what the tasks sum up to; by how much is taken to stay.
    """
    fastest = reference.of(reference.timings(evaluation))
    now = belief.forecast_table(table, 0) if fastest is not None and rounds else None
    if now is None or fastest is None or fastest.verdict is not Verdict.SLOWER or not fastest.ratio:
        return None

    def expected(more: int) -> float | None:
        found = belief.forecast_table(table, more)
        return found.expected if found else None

    needed = rounds_to_pass(expected, now.current / fastest.ratio)
    return needed * tuning / rounds if needed is not None else None


def rounds_to_pass(expected: Callable[[int], float | None], goal: float) -> int | None:
    """Fewest rounds, within an eighth of them, after which the model is expected to take ``goal`` seconds or less.

    Args:
        expected: seconds of the model after so many rounds, which never rise; None where that cannot be told.

    Returns:
        None where ``MAX_ROUNDS`` do not suffice.
    """

    def passed(rounds: int) -> bool:
        seconds = expected(rounds)
        return seconds is not None and seconds <= goal

    high = 1
    while not passed(high):
        high *= 2
        if high > MAX_ROUNDS:
            return None
    low = high // 2  # not enough
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if passed(middle) else (middle, high)
    return high


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


def _table(tasks: DetailedColumns, families: Sequence[str], history: History) -> Table:
    """The tasks that the job's estimate sums up: in use as things stand, and not known to run nothing."""
    used, found = tasks.order[(tasks.tunable & tasks.in_use)[tasks.order]], history.by_task
    unsure = np.flatnonzero(np.isnan(tasks.untuned[used]))
    own = (found.get(key) for key in tasks.ids[used[unsure]].tolist())
    rows = np.delete(used, unsure[[bool(curve and math.isinf(curve[-1])) for curve in own]])
    ids, known, best = tasks.ids[rows].tolist(), _values(tasks.known_before[rows]), _values(tasks.best[rows])
    curves = map(learning_curve, (found.get(key, ()) for key in ids), known, best)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(families))}
    untuned = np.where(np.isnan(tasks.untuned), tasks.rough, tasks.untuned)[rows]
    return Table(
        tuple(ids),
        tuple(curves),
        tasks.weight[rows],
        flops=np.zeros(len(rows)),
        family=np.array([numbers[families[row]] for row in rows.tolist()], dtype=np.int64),
        untuned=np.where(np.isnan(untuned), np.inf, untuned),
        seconds=np.ones(len(rows)),
        exhausted=tasks.exhausted[rows],
    )


def _values(column: Floats) -> list[float | None]:
    """NaN becomes None."""
    return [None if math.isnan(value) else value for value in column.tolist()]
