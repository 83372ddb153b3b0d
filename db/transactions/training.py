"""Cost models that are to be trained."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import CostModelRow, Job
from db.transactions import events
from tunesmith.events import CostModelQueued
from tunesmith.names import RANKER, features_of
from tunesmith.resources import COST_MODEL, new_id


def enqueue(session: Session, job: Job) -> CostModelRow:
    """A new version of a job's cost model, to be trained."""
    assert job.target_hash is not None, "a job's target is known before anything is trained"
    number = session.scalar(sa.select(sa.func.max(CostModelRow.number)).where(CostModelRow.job_id == job.id)) or 0
    row = CostModelRow(
        id=new_id(COST_MODEL),
        kind=job.cost_model,
        job_id=job.id,
        target_hash=job.target_hash,
        number=number + 1,
        features=features_of(job.cost_model),
        precision=job.precision,
    )
    session.add(row)
    session.flush()
    events.append(session, CostModelQueued(row.id, row.number), job.id)
    return row


def enqueue_for_target(session: Session, target_hash: str, precision: str) -> CostModelRow:
    """A new ranker for a target, to be trained on the records of all jobs."""
    own = (CostModelRow.job_id.is_(None), CostModelRow.target_hash == target_hash)
    number = session.scalar(sa.select(sa.func.max(CostModelRow.number)).where(*own)) or 0
    row = CostModelRow(
        id=new_id(COST_MODEL),
        kind=RANKER,
        job_id=None,
        target_hash=target_hash,
        number=number + 1,
        features=features_of(RANKER),
        precision=precision,
    )
    session.add(row)
    session.flush()
    events.append(session, CostModelQueued(row.id, row.number))
    return row
