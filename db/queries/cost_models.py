"""Cost models: what was trained, on how much, and which one ranks candidates now."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import CostModelRow, Job
from tunesmith.names import DEFAULT_PRECISION, DEFAULT_SPACE
from tunesmith.states import WorkState


class TrainedModel(NamedTuple):
    """A cost model to rank candidates with. ``trained_through``: id of the last record that it learned from."""

    id: str
    kind: str
    features: str
    blob: str
    trained_through: int


def latest(session: Session, job_id: str) -> TrainedModel | None:
    """A job's newest trained model."""
    return _first(session, CostModelRow.job_id == job_id, order=CostModelRow.number.desc())


def latest_elsewhere(
    session: Session,
    target: str,
    kind: str,
    features: str,
    not_job: str,
    space: str = DEFAULT_SPACE,
    precision: str = DEFAULT_PRECISION,
) -> TrainedModel | None:
    """The newest trained model of a kind for a target that another job left, on the same features and real figures.

    To the features an instruction for narrow products is one opaque call. A model that never saw it ranks its kernels
    by chance, so each precision has models of its own.

    Args:
        space: space of the job that wants it; for a part of a space, only models of such jobs.
        precision: precision of that job.
    """
    wanted = [
        CostModelRow.target_hash == target,
        CostModelRow.kind == kind,
        CostModelRow.features == features,
        CostModelRow.job_id.is_distinct_from(not_job),
        CostModelRow.simulated.is_(False),
        CostModelRow.precision == precision,
    ]
    if space != DEFAULT_SPACE:
        wanted.append(CostModelRow.job_id.in_(sa.select(Job.id).where(Job.space == space)))
    return _first(session, *wanted, order=CostModelRow.created_at.desc())


def _first(session: Session, *wanted: sa.ColumnElement[bool], order: sa.ColumnElement[Any]) -> TrainedModel | None:
    model = CostModelRow
    query = sa.select(model.id, model.kind, model.features, model.blob, model.trained_through)
    query = query.where(model.state == WorkState.DONE, model.blob.is_not(None), *wanted)
    row = session.execute(query.order_by(order, model.id).limit(1)).first()
    return None if row is None else TrainedModel._make(row)


def owned(session: Session, ids: Collection[str], owner: str) -> set[str]:
    """Which of the cost models belong to jobs of ``owner``."""
    query = sa.select(CostModelRow.id).join(Job, CostModelRow.job_id == Job.id)
    return set(session.scalars(query.where(CostModelRow.id.in_(ids), Job.owner == owner)))
