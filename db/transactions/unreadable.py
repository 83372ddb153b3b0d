"""Work whose message a worker could not read: another worker gets it, and its job shows why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from db import clock
from db.models import Batch, CostModelRow, Evaluation, Job, Listing, Model, ProposalSet, RecordImport, Round
from db.models.work import ACTIVE, NOUNS
from db.transactions import events, work
from db.transactions.locks import lock_row
from db.transactions.transitions import job_of
from db.transactions.work import postpone
from tunesmith.errors import TunesmithError
from tunesmith.events import MessageUnreadable
from tunesmith.messages import (
    VERSION,
    EvaluateModel,
    ImportRecords,
    IngestModel,
    JudgeProposals,
    ListProgram,
    MeasureBatch,
    PrepareJob,
    ProposeRound,
    TrainCostModel,
    Unreadable,
)

MEASURED: Mapping[str, Any] = {MeasureBatch.task: Batch, EvaluateModel.task: Evaluation}


CORE: Mapping[str, Any] = {
    IngestModel.task: Model,
    ImportRecords.task: RecordImport,
    PrepareJob.task: Job,
    ProposeRound.task: Round,
    ListProgram.task: Listing,
    JudgeProposals.task: ProposalSet,
    TrainCostModel.task: CostModelRow,
}


NUMBERED = (Batch, Evaluation, Round, Listing, ProposalSet)
"""Tables whose keys are numbers."""


def note(session: Session, found: Unreadable, worker: str, max_attempts: int) -> None:
    """Hand the work out again.

    Work for a device costs no attempt by that: the device gets no more, and its class waits where it was the only one.
    Other work does, so that it ends with a reason where no worker can read it.
    """
    kind: Any = MEASURED.get(found.message) or CORE.get(found.message)
    key = int(found.row) if kind in NUMBERED and found.row.isdecimal() else found.row
    row = lock_row(session, kind, key) if kind is not None else None
    if row is None or row.attempt != found.attempt or row.worker is not None or row.state not in ACTIVE[kind]:
        return
    said = MessageUnreadable(row.id, NOUNS[kind], worker, found.message, found.speaks, VERSION, found.reason)
    events.append(session, said, job_of(row))
    if found.message in MEASURED:
        postpone(session, row, 0.0, clock.now(session), resend=True)
    else:
        detail = f"worker {worker}: {found.reason}; all parts of the service have to be of one version"
        work.retry_or_fail(session, row, max_attempts, TunesmithError(detail).problem())
