"""Candidates that were proposed from outside, and what became of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from db.models import Batch, Job, JobTask, Proposal, ProposalSet, Record
from tunesmith.proposals import ProposalState
from tunesmith.states import ENDED_JOBS, JobState, WorkState, is_final
from tunesmith.types import Candidate

CLOSED = (*ENDED_JOBS, JobState.FINISHING, JobState.CANCELLING)
"""States of a job in which nothing more of it is measured."""


@dataclass(frozen=True)
class ProposalRow:
    """A proposal with what stands around it; ``record`` is None before it was measured."""

    proposal: Proposal
    set: ProposalSet
    record: Record | None
    batch: WorkState | None
    job: JobState

    @property
    def state(self) -> ProposalState:
        """What has become of it."""
        row = self.proposal
        if row.valid is None:
            return ProposalState.DROPPED if is_final(self.set.state) else ProposalState.JUDGING
        if not row.valid:
            return ProposalState.REFUSED
        if self.record is not None:
            return ProposalState.MEASURED if self.record.latency is not None else ProposalState.FAILED
        if not row.measure:
            return ProposalState.JUDGED
        over = self.job in CLOSED
        if self.batch is None:
            return ProposalState.DROPPED if over else ProposalState.WAITING
        return ProposalState.DROPPED if is_final(self.batch) else ProposalState.MEASURING


class Waiting(NamedTuple):
    """A valid proposal without a place in a batch."""

    id: int
    candidate: Candidate


def given_key(candidate: Candidate) -> str:
    """What tells the candidates of a task apart as they were proposed."""
    return hashlib.sha256(json.dumps(candidate.to_json(), separators=(",", ":")).encode()).hexdigest()


def page(
    session: Session, task_id: int, *, after: int = 0, limit: int | None = None, set_id: int | None = None
) -> list[ProposalRow]:
    """Proposals of a task with an id above ``after``, oldest first; of one set, if that is given."""
    columns: tuple[Any, ...] = (Proposal, ProposalSet, Record, Batch.state, Job.state)
    query = (
        sa.select(*columns)
        .join(ProposalSet, Proposal.set_id == ProposalSet.id)
        .join(Job, Proposal.job_id == Job.id)
        .outerjoin(Record, sa.and_(Record.batch_id == Proposal.batch_id, Record.index == Proposal.index))
        .outerjoin(Batch, Proposal.batch_id == Batch.id)
        .where(Proposal.job_task_id == task_id, Proposal.id > after)
    )
    if set_id is not None:
        query = query.where(Proposal.set_id == set_id)
    return [ProposalRow(*row) for row in session.execute(query.order_by(Proposal.id).limit(limit))]


def count(session: Session, task_id: int) -> int:
    """Proposals of a task."""
    return session.scalar(sa.select(sa.func.count()).where(Proposal.job_task_id == task_id)) or 0


def count_open(session: Session, task_id: int) -> int:
    """Proposals of a task that wait for a verdict, also those to be judged alone, or for a place in a batch."""
    undecided = sa.and_(Proposal.valid.is_(None), ProposalSet.state.in_((WorkState.QUEUED, WorkState.RUNNING)))
    query = sa.select(sa.func.count()).select_from(Proposal).join(ProposalSet, Proposal.set_id == ProposalSet.id)
    return session.scalar(query.where(Proposal.job_task_id == task_id, sa.or_(undecided, _waiting()))) or 0


def counts_waiting(session: Session, job_ids: Collection[str]) -> dict[int, int]:
    """Valid proposals without a place in a batch, by task."""
    query: Any = (
        sa.select(Proposal.job_task_id, sa.func.count())
        .where(Proposal.job_id.in_(job_ids), _waiting())
        .group_by(Proposal.job_task_id)
    )
    return dict(session.execute(query).all())


def _waiting() -> sa.ColumnElement[bool]:
    """Valid, to be measured, and in no batch yet; there is an index of these."""
    return sa.and_(Proposal.measure.is_(True), Proposal.valid.is_(True), Proposal.batch_id.is_(None))


def waiting(session: Session, task_id: int) -> list[Waiting]:
    """Valid proposals of a task without a place in a batch, oldest first."""
    query = (
        sa.select(Proposal.id, Proposal.sketch_hash, Proposal.decisions)
        .join(JobTask, Proposal.job_task_id == JobTask.id)
        .where(
            Proposal.job_id == JobTask.job_id,
            Proposal.job_task_id == task_id,
            _waiting(),
        )
        .order_by(Proposal.id)
    )
    return [Waiting(key, Candidate.from_json([sketch, taken])) for key, sketch, taken in session.execute(query)]


def of_set(session: Session, set_id: int) -> Sequence[Proposal]:
    """The proposals of a set, in their order."""
    return session.scalars(sa.select(Proposal).where(Proposal.set_id == set_id).order_by(Proposal.id)).all()


def earlier(
    session: Session,
    task_id: int,
    sketches: Collection[str],
    not_set: int | None = None,
    among: Collection[Candidate] | None = None,
) -> dict[Candidate, str]:
    """Candidates that a task had already, and what each is in words: measured ones, and those proposed from outside.

    Args:
        sketches: only candidates of these.
        not_set: leaves out a set.
        among: only these of the measured ones, of which there may be a hundred thousand.
    """
    found: dict[Candidate, str] = {}
    proposed = sa.select(Proposal.id, Proposal.sketch_hash, Proposal.decisions).where(
        Proposal.job_task_id == task_id, Proposal.measure.is_(True), Proposal.sketch_hash.in_(sketches)
    )
    if not_set is not None:
        proposed = proposed.where(Proposal.set_id != not_set, Proposal.valid.is_(True))
    for key, sketch, decisions in session.execute(proposed):
        found[Candidate.from_json([sketch, decisions])] = f"proposal {key}"
    found.update((candidate, f"trial {key}") for candidate, key in measured(session, task_id, sketches, among).items())
    return found


def given_keys(session: Session, task_id: int, keys: Collection[str], *, measure: bool) -> dict[str, str]:
    """A task's proposals in words, by :func:`given_key`: those of ``keys`` that are to be measured, or that are not."""
    query = sa.select(Proposal.given, Proposal.id).where(
        Proposal.job_task_id == task_id, Proposal.measure.is_(measure), Proposal.given.in_(keys)
    )
    return {key: f"proposal {found}" for key, found in session.execute(query)}


def trials_by_source(session: Session, task_id: int) -> list[tuple[str | None, float | None]]:
    """Source and latency of each of a task's trials, oldest first, without default schedules.

    The source is None for what nobody proposed from outside, the latency for what failed.
    """
    query: Any = (
        sa.select(ProposalSet.source, Record.latency)
        .select_from(Record)
        .outerjoin(Proposal, sa.and_(Proposal.batch_id == Record.batch_id, Proposal.index == Record.index))
        .outerjoin(ProposalSet, Proposal.set_id == ProposalSet.id)
        .where(Record.job_task_id == task_id, Record.sketch_hash.is_not(None))
        .order_by(Record.id)
    )
    return list(session.execute(query).all())


def measured(
    session: Session, task_id: int, sketches: Collection[str], among: Collection[Candidate] | None = None
) -> dict[Candidate, int]:
    """Ids of a task's trials by candidate, those of some sketches, and of them ``among``, if that is given."""
    query = sa.select(Record.id, Record.sketch_hash, Record.decisions).where(
        Record.job_task_id == task_id, Record.sketch_hash.in_(sketches)
    )
    if among is not None:
        postgresql = session.get_bind().dialect.name == "postgresql"  # there, text as JSON is equal to nothing
        taken: Any = sa.cast(Record.decisions, JSONB) if postgresql else Record.decisions
        query = query.where(sa.or_(sa.false(), *(taken == each.to_json()[1] for each in among)))
    return {Candidate.from_json([sketch, decisions]): key for key, sketch, decisions in session.execute(query)}
