"""What the scheduling loop reads, in a handful of queries whatever the number of jobs, and its own small writes."""

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
    Device,
    Evaluation,
    Family,
    IdempotencyKey,
    Job,
    JobTask,
    Model,
    Record,
    Round,
    TargetRow,
    WorkloadRow,
)
from db.repositories import imports
from db.repositories.transitions import Work, changed_rows
from db.repositories.work import ACTIVE, passed
from tunesmith.states import JobState, RoundState, WorkState, is_final

_LOCK = 0x7363_6865
"""Key of the PostgreSQL advisory lock that lets one loop act at a time."""
_QUOTA_LOCK = 0x7175_6F74
"""First key of the PostgreSQL advisory lock that lets one submission of a user act at a time."""
OPEN_JOBS = tuple(state for state in JobState if not is_final(state))
OPEN_ROUNDS = (RoundState.PROPOSING, RoundState.MEASURING)
OPEN_WORK = (WorkState.QUEUED, WorkState.RUNNING)


@dataclass(frozen=True)
class RoundTotals:
    """Rounds of one task: ever opened, under way, being proposed, finished; the newest round's id; and trials that
    those under way may still add."""

    opened: int = 0
    in_flight: int = 0
    proposing: int = 0
    done: int = 0
    last: int = 0
    trials: int = 0


NO_ROUNDS = RoundTotals()


class TaskRow(NamedTuple):
    """What the planner needs of a task: columns, for a job may have thousands and is looked at every second.

    Attributes:
        finder: the job that found its best schedule.
        rounds: of this task.
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
    untuned_seconds: float | None
    best_seconds: float | None
    known_seconds: float | None
    flops: float
    family: str
    finder: str | None
    rounds: RoundTotals


def lock(session: Session) -> None:
    """Keep other loops out until the transaction ends (on SQLite a write transaction does that by itself)."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


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


def count_open_jobs(session: Session, owner: str) -> int:
    """Jobs of a user that are not over; until the transaction ends nobody else who asks gets an answer."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(_QUOTA_LOCK, sa.func.hashtext(owner))))
    query = sa.select(sa.func.count()).select_from(Job).where(Job.owner == owner, Job.state.in_(OPEN_JOBS))
    return session.scalar(query) or 0


def tasks(session: Session, job_ids: Collection[str]) -> list[TaskRow]:
    """Tasks of jobs in the models' order, without what is large.

    Rounds are read before tasks: a result that comes in between is under way and done for one look, never neither, so
    that no budget is exceeded by it. Not in one statement: where rounds are joined with tasks, PostgreSQL may take a
    minute, see ``db.repositories.task_columns``.
    """
    totals = _totals(session, job_ids)
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
            JobTask.untuned_seconds,
            JobTask.best_seconds,
            JobTask.known_seconds,
            WorkloadRow.flops,
            sa.func.coalesce(Family.name, ""),
            Record.job_id,
        )
        .join(WorkloadRow, JobTask.workload_hash == WorkloadRow.hash)
        .outerjoin(Record, JobTask.best_record_id == Record.id)
        .outerjoin(Family, JobTask.family_id == Family.id)
        .where(JobTask.job_id.in_(job_ids))
        .order_by(JobTask.position, JobTask.id)
    )
    return [TaskRow._make((*row, totals.get(row[0], NO_ROUNDS))) for row in session.execute(query)]


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
        return sa.func.sum(sa.case((Round.state.in_(states), of), else_=0))

    query = (
        sa.select(
            Round.job_task_id,
            sa.func.count(),
            total(1, *OPEN_ROUNDS),
            total(1, RoundState.PROPOSING),
            total(1, RoundState.DONE),
            sa.func.max(Round.id),
            total(Round.size - sa.func.coalesce(recorded.c.number, 0), *OPEN_ROUNDS),
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


def set_clock(session: Session, job: Job, stopped: bool, now: dt.datetime) -> None:
    """Stop or start the clock of a job's budget of seconds."""
    if stopped and job.paused_at is None:
        job.paused_at = now
    elif not stopped and job.paused_at is not None:
        job.paused_seconds += max(0.0, (now - job.paused_at).total_seconds())
        job.paused_at = None


def postpone(session: Session, row: Work, seconds: float, now: dt.datetime, *, resend: bool) -> bool:
    """Give work that nobody took more time, and make it due again when ``resend``; False when somebody took it."""
    kind = type(row)
    values = {"deadline": now + dt.timedelta(seconds=seconds)}
    if resend:
        values = {"deadline": None, "dispatched": row.attempt - 1}  # type: ignore[dict-item]
    statement = sa.update(kind).where(
        kind.id == row.id, kind.attempt == row.attempt, kind.worker.is_(None), kind.state == row.state
    )
    return bool(changed_rows(session, statement.values(**values)))


def forget_idempotency(session: Session, older_than: dt.datetime) -> None:
    """Delete answers that were stored for repeated requests long ago."""
    session.execute(sa.delete(IdempotencyKey).where(IdempotencyKey.created_at < older_than))


def get_idempotency(session: Session, owner: str, route: str, key: str) -> IdempotencyKey | None:
    """The answer stored for a key."""
    return session.get(IdempotencyKey, (owner, route, key), populate_existing=True)


def any_due(session: Session) -> bool:
    """True when some row waits to be published, what waits for an importer aside: users take turns there."""
    return _any(session, lambda kind: kind.dispatched < kind.attempt, without=imports.KINDS)


def any_overdue(session: Session, longest: float, now: dt.datetime) -> bool:
    """True when the deadline of some published row has passed; ``longest``: see ``work.overdue``."""
    return _any(session, lambda kind: sa.and_(kind.dispatched >= kind.attempt, passed(kind.deadline, longest, now)))


def move_clock(session: Session, seconds: float, since: float, now: dt.datetime) -> None:
    """The database's clock was put forward by ``seconds``, or back: move what is held against it along.

    Those are deadlines, signs of life of devices, and the clocks of budgets.

    Args:
        since: seconds for which that may have gone unnoticed; what was written by the new clock stays.
        now: by the new clock.
    """
    by, fresh = dt.timedelta(seconds=seconds), now - dt.timedelta(seconds=since)
    for kind, states in ACTIVE.items():
        query: sa.Select[Any] = sa.select(kind).where(kind.state.in_(states), kind.deadline.is_not(None))  # type: ignore[attr-defined]
        for row in session.scalars(query.with_for_update()):
            if passed_by(row.deadline, abs(seconds), now):
                row.deadline += by
    for device in session.scalars(sa.select(Device).with_for_update()):
        if not fresh <= device.seen_at <= now:
            device.seen_at += by
    for job in session.scalars(sa.select(Job).where(Job.state.in_(OPEN_JOBS)).with_for_update()):
        if not fresh <= job.created_at <= now:
            job.paused_seconds += seconds
            job.paused_at = job.paused_at + by if job.paused_at is not None else None
    session.flush()


def passed_by(deadline: dt.datetime, seconds: float, now: dt.datetime) -> bool:
    """True for a deadline that has passed, or is further ahead than ``seconds``: another clock set it."""
    return not now <= deadline <= now + dt.timedelta(seconds=seconds)


def _any(session: Session, condition: Callable[[Any], sa.ColumnElement[bool]], without: Collection[type] = ()) -> bool:
    kinds: list[tuple[Any, Any]] = [(kind, states) for kind, states in ACTIVE.items() if kind not in without]
    found = sa.or_(*(sa.exists().where(kind.state.in_(states), condition(kind)) for kind, states in kinds))
    return bool(session.scalar(sa.select(found)))
