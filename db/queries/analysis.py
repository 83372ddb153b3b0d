"""What a task's trials tell of its knobs and of the cost model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Batch, Record, Round

MAX_ROUNDS = 1000


class SketchTrials(NamedTuple):
    """Trials of a sketch that ran, and the latency of the fastest in seconds; None is the default schedule."""

    sketch: str | None
    trials: int
    latency: float


class Point(NamedTuple):
    """A trial that ran; ``place``: its index in the batch."""

    trial: int
    sketch: str | None
    decisions: list[Any]
    latency: float
    batch: int | None
    place: int


class Expectation(NamedTuple):
    """Number of a batch's round, and the scores that the cost model gave its candidates, by index."""

    round: int
    scores: list[float | None]


def _ran(task_id: int) -> tuple[sa.ColumnElement[bool], ...]:
    return Record.job_task_id == task_id, Record.latency.is_not(None), Record.revoked_at.is_(None)


def by_sketch(session: Session, task_id: int) -> list[SketchTrials]:
    """The sketches of which something ran, those with most trials first."""
    count = sa.func.count()
    query = sa.select(Record.sketch_hash, count, sa.func.min(Record.latency)).where(*_ran(task_id))
    query = query.group_by(Record.sketch_hash).order_by(count.desc(), Record.sketch_hash)
    return [SketchTrials._make(row) for row in session.execute(query)]


def latencies(session: Session, task_id: int) -> list[tuple[int, float]]:
    """Ids and latencies in seconds of the trials that ran, oldest first."""
    query = sa.select(Record.id, Record.latency).where(*_ran(task_id)).order_by(Record.id)
    return [(key, float(latency or 0.0)) for key, latency in session.execute(query)]


def points(session: Session, trials: Sequence[int]) -> list[Point]:
    """Some trials, oldest first."""
    query = sa.select(
        Record.id, Record.sketch_hash, Record.decisions, Record.latency, Record.batch_id, Record.index
    ).where(Record.id.in_(trials))
    return [Point._make(row) for row in session.execute(query.order_by(Record.id))]


def expectations(session: Session, batches: Sequence[int]) -> dict[int, Expectation]:
    """What was expected of some batches."""
    query = sa.select(Batch.id, Round.number, Batch.predictions).join(Round, Batch.round_id == Round.id)
    rows = session.execute(query.where(Batch.id.in_(batches)))
    return {batch: Expectation(number, list(scores or [])) for batch, number, scores in rows}


def rankings(session: Session, task_id: int) -> list[tuple[int, dict[str, Any]]]:
    """How well the cost model ranked the newest rounds of a task that it ranked: number and metrics, oldest first."""
    query = sa.select(Round.number, Round.metrics).where(Round.job_task_id == task_id, Round.metrics.is_not(None))
    rows = session.execute(query.order_by(Round.number.desc()).limit(MAX_ROUNDS)).all()
    return [(number, metrics["ranking"]) for number, metrics in reversed(rows) if metrics and "ranking" in metrics]
