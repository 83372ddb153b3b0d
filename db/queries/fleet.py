"""Targets, devices, workers, queues, cost models, keys and champions as the API shows them."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import ApiKey, CostModelRow, Device, Job, Model, ReportRefusal, Round, Schedule, TargetRow
from db.models.work import ACTIVE, QUEUES
from tunesmith.messages import measure_queue
from tunesmith.states import OPEN_ROUNDS, JobState, ModelState


def unclaimed(session: Session) -> dict[str, int]:
    """Pieces of work that were sent and that nobody took yet, by queue."""
    found: Counter[str] = Counter()
    for queue, taken, number in _by_queue(session, sent=True):
        if not taken:
            found[queue] += number
    return dict(found)


def _by_queue(session: Session, *, sent: bool = False) -> Iterator[tuple[str, bool, int]]:
    """Queue of some work, whether a worker has it, and how much of such there is; with ``sent``, no other."""
    for kind, states in ACTIVE.items():
        work: Any = kind
        classes = [] if kind in QUEUES else [work.device_class]
        query = sa.select(work.worker.is_not(None), sa.func.count(), *classes).where(work.state.in_(states))
        if sent:
            query = query.where(work.dispatched >= work.attempt)
        for taken, number, *of in session.execute(query.group_by(work.worker.is_not(None), *classes)):
            yield measure_queue(of[0]) if of else QUEUES[kind], bool(taken), number


@dataclass(frozen=True)
class Backlog:
    """Rows of a queue: nobody took them yet, or a worker has them."""

    waiting: int = 0
    running: int = 0


def targets(session: Session, *, owner: str | None = None) -> Sequence[TargetRow]:
    """Targets that something was tuned for; with ``owner`` only those of its jobs and those that have champions."""
    query = sa.select(TargetRow).order_by(TargetRow.created_at, TargetRow.hash)
    if owner is not None:
        own = sa.select(Job.target_hash).where(Job.owner == owner, Job.target_hash.is_not(None))
        measured = sa.select(Schedule.target_hash)
        query = query.where(sa.or_(TargetRow.hash.in_(own), TargetRow.hash.in_(measured)))
    return session.scalars(query).all()


def devices(session: Session) -> Sequence[Device]:
    """Every device that ever reported, by name."""
    return session.scalars(sa.select(Device).order_by(Device.name)).all()


def holders(session: Session) -> dict[str, int]:
    """How many pieces of work each worker holds."""
    held: dict[str, int] = {}
    for kind, states in ACTIVE.items():
        query = sa.select(kind.worker, sa.func.count()).where(  # type: ignore[attr-defined]
            kind.state.in_(states),  # type: ignore[attr-defined]
            kind.worker.is_not(None),  # type: ignore[attr-defined]
        )
        for worker, number in session.execute(query.group_by(kind.worker)):  # type: ignore[attr-defined]
            held[worker] = held.get(worker, 0) + number
    return held


def backlogs(session: Session) -> dict[str, Backlog]:
    """Waiting and running rows by queue."""
    found = {queue: Backlog() for queue in QUEUES.values()}
    for queue, taken, number in _by_queue(session):
        old = found.get(queue, Backlog())
        found[queue] = Backlog(old.waiting + number * (not taken), old.running + number * taken)
    return found


def cost_models_of(owner: str | None, job_id: str | None) -> sa.Select[CostModelRow]:
    """A query of the cost models of a job; with ``owner`` only those of its jobs."""
    row = CostModelRow
    query = sa.select(row)
    if owner is not None:
        query = query.where(row.job_id.in_(sa.select(Job.id).where(Job.owner == owner)))
    if job_id is not None:
        query = query.where(row.job_id == job_id)
    return query


def cost_models(
    session: Session, wanted: sa.Select[CostModelRow], *, before: tuple[dt.datetime, str] | None, limit: int
) -> Sequence[CostModelRow]:
    """The cost models of a query, newest first."""
    row = CostModelRow
    query = wanted.order_by(row.created_at.desc(), row.id.desc()).limit(limit)
    if before is not None:
        query = query.where(sa.tuple_(row.created_at, row.id) < before)
    return session.scalars(query).all()


def keys(session: Session) -> Sequence[ApiKey]:
    """Every API key."""
    return session.scalars(sa.select(ApiKey).order_by(ApiKey.created_at, ApiKey.id)).all()


def counts(session: Session) -> dict[str, Any]:
    """Figures for the metrics page, read at scrape: jobs and models by state, rounds under way."""
    jobs = session.execute(sa.select(Job.state, sa.func.count()).group_by(Job.state))
    own = sa.select(Model.state, sa.func.count()).where(Model.variant_of.is_(None))
    models = session.execute(own.group_by(Model.state))
    rounds = session.execute(
        sa.select(Round.state, sa.func.count()).where(Round.state.in_(OPEN_ROUNDS)).group_by(Round.state)
    )
    return {
        "jobs": {state.value: 0 for state in JobState} | {state.value: number for state, number in jobs},
        "models": {state.value: 0 for state in ModelState} | {state.value: number for state, number in models},
        "rounds": {state.value: 0 for state in OPEN_ROUNDS} | {state.value: number for state, number in rounds},
    }


def refusals(session: Session) -> dict[str, float]:
    """Refused reports by reason."""
    return {
        reason: float(count) for reason, count in session.execute(sa.select(ReportRefusal.reason, ReportRefusal.count))
    }
