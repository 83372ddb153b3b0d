"""What the scheduling loop reads, in a handful of queries whatever the number of jobs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import (
    Batch,
    CostModelRow,
    Evaluation,
    Family,
    Job,
    JobTask,
    Model,
    Record,
    Round,
    TargetRow,
    WorkloadRow,
)
from db.models.work import ACTIVE
from db.queries import import_queue
from db.queries.proposals import counts_waiting
from tunesmith.states import OPEN_JOBS, OPEN_ROUNDS, OPEN_WORK, RoundState, WorkState


@dataclass(frozen=True)
class RoundTotals:
    """Rounds of one task: ever opened, under way, being proposed, finished; the newest round's id; and trials that
    those under way may still add.

    ``answers``: rounds without candidates, which give a task a schedule without a measurement; ``answering``: those of
    them that are under way. They count as opened, and as nothing else.
    """

    opened: int = 0
    in_flight: int = 0
    proposing: int = 0
    done: int = 0
    last: int = 0
    trials: int = 0
    answers: int = 0
    answering: int = 0


NO_ROUNDS = RoundTotals()


class TaskRow(NamedTuple):
    """What the planner needs of a task: columns, for a job may have thousands and is looked at every second.

    Attributes:
        finder: the job that found its best schedule.
        rounds: rounds of this task.
        has_answer: there is a schedule of it that nobody measured.
        searched: a searcher has proposed something of it.
        proposed: valid candidates that were proposed from outside and are in no batch.
    """

    id: int
    job_id: str
    workload_hash: str
    alternative_of: str | None
    weight: int
    tunable: bool
    exhausted: bool
    trials: int
    failures: int
    duplicates: int
    earlier_labels: int
    untuned_seconds: float | None
    best_seconds: float | None
    known_seconds: float | None
    flops: float
    family: str
    finder: str | None
    has_answer: bool
    searched: bool
    rounds: RoundTotals
    proposed: int


def open_jobs(session: Session) -> Sequence[tuple[Job, Model, str | None]]:
    """Jobs that are not over, with model and device class, oldest first."""
    query = (
        sa.select(Job, Model, TargetRow.device_class)
        .join(Model, Job.model_id == Model.id)
        .outerjoin(TargetRow, Job.target_hash == TargetRow.hash)
        .where(Job.state.in_(OPEN_JOBS))
        .execution_options(populate_existing=True)
    )
    found = session.execute(query.order_by(Job.created_at, Job.id))
    return [(job, model, device_class) for job, model, device_class in found]


def tasks(session: Session, job_ids: Collection[str]) -> list[TaskRow]:
    """Tasks of jobs in the models' order, without what is large.

    Rounds are read before tasks: a result that comes in between is under way and done for one look, never neither, so
    that no budget is exceeded by it. Not in one statement: where rounds are joined with tasks, PostgreSQL may take a
    minute, see ``db.queries.task_columns``.
    """
    totals, proposed = _totals(session, job_ids), counts_waiting(session, job_ids)
    query = (
        sa.select(
            JobTask.id,
            JobTask.job_id,
            JobTask.workload_hash,
            JobTask.alternative_of,
            JobTask.weight,
            JobTask.tunable,
            JobTask.exhausted,
            JobTask.trials,
            JobTask.failures,
            JobTask.duplicates,
            JobTask.earlier_labels,
            JobTask.untuned_seconds,
            JobTask.best_seconds,
            JobTask.known_seconds,
            WorkloadRow.flops,
            sa.func.coalesce(Family.name, ""),
            Record.job_id,
            JobTask.answer.is_not(None),
            JobTask.searcher_state.is_not(None),
        )
        .join(WorkloadRow, JobTask.workload_hash == WorkloadRow.hash)
        .outerjoin(Record, JobTask.best_record_id == Record.id)
        .outerjoin(Family, JobTask.family_id == Family.id)
        .where(JobTask.job_id.in_(job_ids))
        .order_by(JobTask.position, JobTask.id)
    )
    return [
        TaskRow._make((*row, totals.get(row[0], NO_ROUNDS), proposed.get(row[0], 0))) for row in session.execute(query)
    ]


def _totals(session: Session, job_ids: Collection[str]) -> dict[int, RoundTotals]:
    """Rounds by task. One that is under way may still add its size less the records that are in."""
    recorded = (
        sa.select(Batch.round_id, sa.func.count().label("number"))
        .join(Record, Record.batch_id == Batch.id)
        .where(Batch.job_id.in_(job_ids), Batch.state.in_(OPEN_WORK), Record.sketch_hash.is_not(None))
        .group_by(Batch.round_id)
        .subquery()
    )

    def total(of: sa.ColumnElement[int] | int, *states: RoundState) -> sa.ColumnElement[int]:
        return sa.func.sum(sa.case((sa.and_(Round.state.in_(states), Round.size > 0), of), else_=0))

    query = (
        sa.select(
            Round.job_task_id,
            sa.func.count(),
            total(1, *OPEN_ROUNDS),
            total(1, RoundState.PROPOSING),
            total(1, RoundState.DONE),
            sa.func.max(Round.id),
            total(Round.size - sa.func.coalesce(recorded.c.number, 0), *OPEN_ROUNDS),
            sa.func.sum(sa.case((Round.size == 0, 1), else_=0)),
            sa.func.sum(sa.case((sa.and_(Round.size == 0, Round.state.in_(OPEN_ROUNDS)), 1), else_=0)),
        )
        .outerjoin(recorded, recorded.c.round_id == Round.id)
        .where(Round.job_id.in_(job_ids))
        .group_by(Round.job_task_id)
    )
    return {task: RoundTotals(*map(int, numbers)) for task, *numbers in session.execute(query)}


def evaluations(session: Session, job_ids: Collection[str]) -> dict[str, Evaluation]:
    """Evaluations by job."""
    query = sa.select(Evaluation).where(Evaluation.job_id.in_(job_ids))
    return {row.job_id: row for row in session.scalars(query.execution_options(populate_existing=True))}


def trainings(session: Session, job_ids: Collection[str]) -> dict[str, list[tuple[WorkState, int]]]:
    """State and number of records of each cost model, by job, oldest first."""
    query = sa.select(CostModelRow.job_id, CostModelRow.state, CostModelRow.trained_on)
    found: dict[str, list[tuple[WorkState, int]]] = {}
    query = query.where(CostModelRow.job_id.in_(job_ids)).order_by(CostModelRow.number)
    for job, state, trained_on in session.execute(query):
        found.setdefault(str(job), []).append((state, trained_on))
    return found


def open_rounds_of(session: Session, job_id: str, states: Collection[RoundState]) -> Sequence[Round]:
    """A job's rounds in one of ``states``."""
    return session.scalars(sa.select(Round).where(Round.job_id == job_id, Round.state.in_(states))).all()


def batch_of(session: Session, round_id: int) -> Batch | None:
    """The batch of a round, if it was proposed already."""
    return session.scalars(sa.select(Batch).where(Batch.round_id == round_id)).first()


def evaluation_of(session: Session, job_id: str) -> Evaluation | None:
    """A job's evaluation."""
    return session.scalars(sa.select(Evaluation).where(Evaluation.job_id == job_id)).first()


def any_due(session: Session) -> bool:
    """True when some row waits to be published, what waits for an importer aside: users take turns there."""
    return _any(session, lambda kind: kind.dispatched < kind.attempt, without=import_queue.KINDS)


def any_overdue(session: Session, longest: float, now: dt.datetime) -> bool:
    """True when the deadline of some published row has passed; ``longest``: see ``work.overdue``."""
    return _any(session, lambda kind: sa.and_(kind.dispatched >= kind.attempt, passed(kind.deadline, longest, now)))


def _any(session: Session, condition: Callable[[Any], sa.ColumnElement[bool]], without: Collection[type] = ()) -> bool:
    kinds: list[tuple[Any, Any]] = [(kind, states) for kind, states in ACTIVE.items() if kind not in without]
    found = sa.or_(*(sa.exists().where(kind.state.in_(states), condition(kind)) for kind, states in kinds))
    return bool(session.scalar(sa.select(found)))


def passed(deadline: Any, longest: float, now: dt.datetime) -> sa.ColumnElement[bool]:
    """The condition that a deadline counts as passed, see :func:`overdue`."""
    return sa.or_(deadline < now, deadline > now + dt.timedelta(seconds=longest))
