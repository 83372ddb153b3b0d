"""One scenario, once: before, fault, after, and what the database says of it."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from itertools import pairwise

import sqlalchemy as sa
from sqlalchemy.orm import Session

from benchmarks.faults.cluster import Cluster
from benchmarks.faults.scenarios import Scenario
from db.models import Batch, JobTask, Record
from db.models.base import utcnow
from tunesmith.states import is_final
from tunesmith.types import FailureKind

DRAIN_SECONDS = 120.0
"""How long what was under way may take to end; more than a worker's silence is waited for."""
SETTLE_SECONDS = 3.0


@dataclass(frozen=True)
class Trial:
    """What was counted.

    Attributes:
        before, during, after: results a second in each phase.
        first: seconds from the fault's end to the first result.
        again: batches that needed more than one attempt.
        lost: candidates of the batches that were made until the end of the last phase and have no result.
        doubled: trials that were counted more than once.
        abandoned: candidates that were given up.
    """

    before: float
    during: float
    after: float
    first: float | None
    retried: int
    lost: int
    doubled: int
    abandoned: int

    @property
    def recovery(self) -> float:
        """Rate after the fault over the rate before."""
        return self.after / self.before if self.before else 0.0


def run(cluster: Cluster, scenario: Scenario, seconds: float) -> Trial:
    """Wait until things flow, then watch three phases of ``seconds`` each."""
    engine = sa.create_engine(cluster.postgres.url(), poolclass=sa.NullPool)
    time.sleep(SETTLE_SECONDS)
    with Session(engine) as session:
        known = surplus(session)
    begun = utcnow()
    time.sleep(seconds)
    faulty = utcnow()
    scenario.run(cluster, seconds)
    over = utcnow()
    time.sleep(seconds)
    ended = utcnow()
    drain(engine, begun, ended)
    with Session(engine) as session:
        return count(session, (begun, faulty, over, ended), known)


def results(engine: sa.Engine, since: dt.datetime) -> int:
    """How many came since then."""
    with Session(engine) as session:
        return _count(session, Record.created_at >= since)


def drain(engine: sa.Engine, since: dt.datetime, until: dt.datetime) -> None:
    """Wait for the batches that were made between two moments; those that do not end count as lost later."""
    made = sa.select(Batch.state).where(Batch.created_at >= since, Batch.created_at < until)
    end = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < end:
        with Session(engine) as session:
            if all(is_final(state) for state in session.scalars(made)):
                return
        time.sleep(0.5)


def surplus(session: Session) -> int:
    """Trials that were counted beyond the records that there are."""
    # One statement: trials and records of one moment.
    records = sa.select(sa.func.count()).select_from(Record).where(Record.sketch_hash.is_not(None)).scalar_subquery()
    return int(session.scalar(sa.select(sa.func.coalesce(sa.func.sum(JobTask.trials), 0) - records)) or 0)


def count(session: Session, moments: tuple[dt.datetime, ...], known: int = 0) -> Trial:
    """What the database says of three phases.

    Args:
        moments: beginning, fault, end of the fault, end.
        known: the surplus at the beginning.
    """
    begun, _, over, ended = moments
    batches = session.scalars(sa.select(Batch).where(Batch.created_at >= begun, Batch.created_at < ended)).all()
    mine = Record.batch_id.in_(sa.select(Batch.id).where(Batch.created_at >= begun, Batch.created_at < ended))
    first = session.scalar(sa.select(sa.func.min(Record.created_at)).where(Record.created_at >= over))
    before, during, after = (
        _count(session, Record.created_at >= since, Record.created_at < until) / (until - since).total_seconds()
        for since, until in pairwise(moments)
    )
    distinct = sa.select(Record.batch_id, Record.index).where(mine).distinct().subquery()
    indices = session.scalar(sa.select(sa.func.count()).select_from(distinct)) or 0
    return Trial(
        before=before,
        during=during,
        after=after,
        first=(first - over).total_seconds() if first else None,
        retried=sum(batch.attempt > 1 for batch in batches),
        lost=sum(len(batch.candidates) for batch in batches) - indices,
        doubled=_count(session, mine) - indices + surplus(session) - known,
        abandoned=_count(session, mine, Record.failure == FailureKind.ABANDONED.value),
    )


def _count(session: Session, *where: sa.ColumnElement[bool]) -> int:
    return session.scalar(sa.select(sa.func.count()).select_from(Record).where(*where)) or 0
