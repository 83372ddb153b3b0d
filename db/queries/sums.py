"""Tasks of jobs, summed up: by job, and by family."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Round
from db.queries.task_columns import TaskColumns, columns, detailed, family_names
from tunesmith.columns import total
from tunesmith.space.base import Bools, Floats, Ints
from tunesmith.states import RoundState

ENDED_ROUNDS = (RoundState.DONE, RoundState.FAILED)


@dataclass(frozen=True)
class TaskSums:
    """A job's tasks, summed up. Latencies are in seconds, weighted, over the tunable tasks that have one; of a task and
    its alternative the faster one counts.

    ``measured`` counts the tunable tasks with a latency, and those whose first round ended without giving any;
    ``rough`` of the others those whose rough latency is in the sums, and ``unknown`` those with none: as long as there
    are such, the sums are no latency of the model.
    """

    tasks: int = 0
    tunable: int = 0
    measured: int = 0
    trials: int = 0
    failures: int = 0
    untuned: float | None = None
    best: float | None = None
    rough: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class FamilySums:
    """Tasks of one family: latencies in seconds, weighted, untuned of the direct tasks and best of those in use."""

    name: str
    tasks: int
    trials: int
    failures: int
    untuned: float | None
    best: float | None


def sums(session: Session, job_ids: Sequence[str]) -> dict[str, TaskSums]:
    """The sums over each job's tasks. One counts as measured where its alternative or direct task has a schedule:
    the model's latency is known then."""
    return {job: of_columns(session, job, found) for job, found in columns(session, job_ids)}


def of_columns(session: Session, job_id: str, tasks: TaskColumns) -> TaskSums:
    """The same of tasks that were read already."""
    missing = tasks.ids[tasks.tunable & ~tasks.known & ~tasks.helped].tolist()
    ended = _ended(session, job_id) if missing else set()
    tunable, place = int(tasks.tunable.sum()), tasks.tunable & tasks.is_direct
    unmeasured = np.isin(tasks.ids, [task for task in missing if task not in ended])
    return TaskSums(
        len(tasks.ids),
        tunable,
        tunable - int(unmeasured.sum()),
        int(tasks.trials.sum()),
        int(tasks.failures.sum()),
        total((tasks.weight * tasks.start)[place]),
        latency(tasks),
        int((unmeasured & tasks.guessed).sum()),
        int((unmeasured & place & np.isnan(tasks.place)).sum()),
    )


def latency(tasks: TaskColumns) -> float | None:
    """Seconds of the model as things stand, over the tunable tasks that have a latency; None where none has."""
    return total((tasks.weight * tasks.place)[tasks.tunable & tasks.is_direct])


def _ended(session: Session, job_id: str) -> Collection[int]:
    """Tasks of which a round with candidates has ended."""
    query = sa.select(Round.job_task_id).where(Round.job_id == job_id, Round.state.in_(ENDED_ROUNDS), Round.size > 0)
    return set(session.scalars(query.distinct()))


def families(session: Session, job_id: str) -> list[FamilySums]:
    """The sums over each family of a job, in the order in which the model has them."""
    tasks = detailed(session, job_id)
    order, names = tasks.order, family_names(session, job_id, tasks)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names[row] for row in order.tolist()))}
    family = np.array([numbers[name] for name in names], dtype=np.int64)[order]

    def counted(values: Ints) -> list[int]:
        return [int(number) for number in np.bincount(family, weights=values[order], minlength=len(numbers))]

    def summed(values: Floats, which: Bools) -> list[float | None]:
        known = (which & ~np.isnan(values))[order]
        found = np.bincount(family[known], weights=(tasks.weight * values)[order][known], minlength=len(numbers))
        there = np.bincount(family[known], minlength=len(numbers))
        return [value if number else None for value, number in zip(found.tolist(), there.tolist(), strict=True)]

    found = zip(
        numbers,
        counted(np.ones_like(order)),
        counted(tasks.trials),
        counted(tasks.failures),
        summed(tasks.untuned, tasks.is_direct),
        summed(tasks.current, tasks.in_use),
        strict=True,
    )
    return [FamilySums(*each) for each in found]
