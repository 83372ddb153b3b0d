"""Cost models: what was trained, on how much, and which one ranks candidates now."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import CostModelRow, Job
from tunesmith.names import DEFAULT_SPACE
from tunesmith.states import WorkState


def latest(session: Session, job_id: str) -> CostModelRow | None:
    """A job's newest trained model."""
    query = sa.select(CostModelRow).where(CostModelRow.job_id == job_id, CostModelRow.state == WorkState.DONE)
    return session.scalars(query.order_by(CostModelRow.number.desc()).limit(1)).first()


def latest_elsewhere(
    session: Session, target: str, kind: str, features: str, not_job: str, space: str = DEFAULT_SPACE
) -> CostModelRow | None:
    """The newest trained model of a kind for a target that another job left, on the same features and real figures.

    Args:
        space: of the job that wants it; where that is a part, only models of such jobs.
    """
    query = sa.select(CostModelRow).where(
        CostModelRow.target_hash == target,
        CostModelRow.kind == kind,
        CostModelRow.features == features,
        CostModelRow.state == WorkState.DONE,
        CostModelRow.job_id.is_distinct_from(not_job),
        CostModelRow.simulated.is_(False),
    )
    if space != DEFAULT_SPACE:
        query = query.where(CostModelRow.job_id.in_(sa.select(Job.id).where(Job.space == space)))
    return session.scalars(query.order_by(CostModelRow.created_at.desc(), CostModelRow.id).limit(1)).first()


def owned(session: Session, ids: Collection[str], owner: str) -> set[str]:
    """Which of the cost models belong to jobs of ``owner``."""
    query = sa.select(CostModelRow.id).join(Job, CostModelRow.job_id == Job.id)
    return set(session.scalars(query.where(CostModelRow.id.in_(ids), Job.owner == owner)))


def get(session: Session, key: str) -> CostModelRow | None:
    """A cost model by id."""
    return session.get(CostModelRow, key)


def existing(session: Session, key: str) -> CostModelRow:
    """A cost model that is there. Raises NoResultFound when it was deleted."""
    return session.get_one(CostModelRow, key)
