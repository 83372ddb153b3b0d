"""Proposed candidates: taken in, judged, and handed to a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import JobTask, Proposal, ProposalSet
from db.queries.proposals import given_key, of_set
from db.transactions import events
from db.transactions.transitions import transition
from tunesmith.events import ProposalSetQueued
from tunesmith.proposals import MAX_REASON, ProposalSource
from tunesmith.states import WorkState
from tunesmith.types import Candidate


@dataclass(frozen=True)
class Verdict:
    """What a worker says of a proposed candidate.

    Attributes:
        candidate: in canonical form; None for one that is refused.
        reason: why it is refused, or what is odd about it.
        estimate: seconds, by the static model; None where that says nothing.
        score: by the job's cost model, higher is faster; None without one.
    """

    candidate: Candidate | None
    reason: str | None = None
    estimate: float | None = None
    score: float | None = None


def add(
    session: Session,
    task: JobTask,
    candidates: Sequence[Candidate],
    source: ProposalSource,
    author: str,
    *,
    measure: bool = True,
) -> ProposalSet:
    """A new set, to be judged, and to be measured if ``measure`` says so.

    The candidates are points of the task's space, each of them new to the task.
    """
    found = ProposalSet(job_id=task.job_id, job_task_id=task.id, source=source.value, author=author)
    session.add(found)
    session.flush()
    for candidate in candidates:
        sketch, decisions = candidate.to_json()
        session.add(
            Proposal(
                set_id=found.id,
                job_id=task.job_id,
                job_task_id=task.id,
                sketch_hash=sketch,
                decisions=decisions,
                given=given_key(candidate),
                measure=measure,
            )
        )
    session.flush()
    said = ProposalSetQueued(found.id, task.id, task.name, source.value, author, len(candidates))
    events.append(session, said, task.job_id)
    return found


def judge(session: Session, row: ProposalSet, verdicts: Sequence[Verdict]) -> None:
    """Store the verdicts on a set's candidates, in their order. ``row``: locked."""
    for proposal, verdict in zip(of_set(session, row.id), verdicts, strict=True):
        proposal.valid = verdict.candidate is not None
        proposal.reason = verdict.reason and verdict.reason[:MAX_REASON]
        proposal.estimate, proposal.score = verdict.estimate, verdict.score
        if verdict.candidate is not None:
            proposal.decisions = verdict.candidate.to_json()[1]
    valid = sum(verdict.candidate is not None for verdict in verdicts)
    transition(session, row, WorkState.DONE, data={"valid": valid, "refused": len(verdicts) - valid})


def hand_out(session: Session, batch_id: int, places: Mapping[int, int]) -> None:
    """Say where proposals are measured; ``places``: index in the batch by proposal."""
    for proposal, index in places.items():
        session.execute(sa.update(Proposal).where(Proposal.id == proposal).values(batch_id=batch_id, index=index))


def refuse(session: Session, reasons: Mapping[int, str]) -> None:
    """Refuse valid proposals after all; ``reasons``: by proposal."""
    for proposal, reason in reasons.items():
        session.execute(sa.update(Proposal).where(Proposal.id == proposal).values(valid=False, reason=reason))
