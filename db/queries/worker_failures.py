"""What workers broke on lately."""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Batch, CostModelRow, Evaluation, Job, Listing, Model, ProposalSet, RecordImport, Round
from db.models.work import NOUNS

NEWEST = 5_000
"""Rows of a numbered kind that are looked through, from the newest on: most work does not fail."""
EACH = 20


class WorkerFailure(NamedTuple):
    """Work that ended with a problem.

    Attributes:
        worker: who had it last.
        kind: what it is called.
        created_at: when the work came up.
    """

    worker: str
    kind: str
    row: str
    problem: dict[str, Any]
    created_at: dt.datetime


def newest(session: Session) -> list[WorkerFailure]:
    """The newest failures of each kind of work, newest first."""
    found: list[WorkerFailure] = []
    for kind in (Round, Batch, Evaluation, Listing, ProposalSet, Model, Job, CostModelRow, RecordImport):
        row: Any = kind
        query = sa.select(row.worker, row.id, row.error, row.created_at)
        query = query.where(row.error.is_not(None), row.worker.is_not(None))
        if isinstance(row.id.type, sa.BigInteger):
            last = sa.select(sa.func.max(row.id)).scalar_subquery()
            query = query.where(row.id > last - NEWEST)
        for worker, key, problem, created in session.execute(query.order_by(row.created_at.desc()).limit(EACH)):
            found.append(WorkerFailure(worker, NOUNS[kind], str(key), problem, created))
    return sorted(found, key=lambda each: each.created_at, reverse=True)
