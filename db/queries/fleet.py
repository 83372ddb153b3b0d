"""Targets, devices, workers, queues, cost models, keys and champions as the API shows them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import (
    ApiKey,
    Batch,
    CostModelRow,
    Device,
    Evaluation,
    Job,
    Model,
    ReportRefusal,
    Round,
    Schedule,
    TargetRow,
)
from db.models.work import ACTIVE
from tunesmith.messages import INGEST, SEARCH, TRAIN, measure_queue
from tunesmith.states import OPEN_ROUNDS, JobState, ModelState


def unclaimed(session: Session) -> dict[str, int]:
    """Pieces of work that were sent and that nobody took yet, by queue."""
    found: dict[str, int] = {}
    queues: dict[Any, Any] = {
        Model: INGEST,
        Job: INGEST,
        Round: SEARCH,
        CostModelRow: TRAIN,
        Batch: Batch.device_class,
        Evaluation: Evaluation.device_class,
    }
    for kind, queue in queues.items():
        where = sa.literal(queue) if isinstance(queue, str) else queue
        query = sa.select(where, sa.func.count()).where(
            kind.state.in_(ACTIVE[kind]), kind.dispatched >= kind.attempt, kind.worker.is_(None)
        )
        for name, number in session.execute(query.group_by(where) if where is queue else query):
            key = measure_queue(name) if where is queue else str(queue)
            found[key] = found.get(key, 0) + number
    return {queue: number for queue, number in found.items() if number}


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
    found: dict[str, Backlog] = {INGEST: Backlog(), SEARCH: Backlog(), TRAIN: Backlog()}
    for kind, queue in ((Model, INGEST), (Job, INGEST), (Round, SEARCH), (CostModelRow, TRAIN)):
        query = sa.select(kind.worker.is_not(None), sa.func.count()).where(kind.state.in_(ACTIVE[kind]))
        for taken, number in session.execute(query.group_by(kind.worker.is_not(None))):
            found[queue] = _more(found[queue], bool(taken), number)
    for work in (Batch, Evaluation):
        measured = sa.select(work.device_class, work.worker.is_not(None), sa.func.count()).where(
            work.state.in_(ACTIVE[work])
        )
        for cls, taken, number in session.execute(measured.group_by(work.device_class, work.worker.is_not(None))):
            queue = measure_queue(cls)
            found[queue] = _more(found.get(queue, Backlog()), bool(taken), number)
    return found


def _more(old: Backlog, taken: bool, number: int) -> Backlog:
    return Backlog(old.waiting + (0 if taken else number), old.running + (number if taken else 0))


def cost_models(
    session: Session, *, owner: str | None, job_id: str | None, before: tuple[dt.datetime, str] | None, limit: int
) -> Sequence[CostModelRow]:
    """Cost models, newest first; with ``owner`` only those of its jobs."""
    row = CostModelRow
    query = sa.select(row).order_by(row.created_at.desc(), row.id.desc()).limit(limit)
    if owner is not None:
        query = query.where(row.job_id.in_(sa.select(Job.id).where(Job.owner == owner)))
    if job_id is not None:
        query = query.where(row.job_id == job_id)
    if before is not None:
        bound = sa.tuple_(
            sa.bindparam(None, before[0], row.created_at.type), sa.bindparam(None, before[1], row.id.type)
        )
        query = query.where(sa.tuple_(row.created_at, row.id) < bound)
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
