"""The row that a message is about."""

from __future__ import annotations

from typing import Any

from db.models import CostModelRow, Job, Listing, Model, ProposalSet, RecordImport, Round
from tunesmith.messages import (
    ImportRecords,
    IngestModel,
    JudgeProposals,
    ListProgram,
    Message,
    PrepareJob,
    ProposeRound,
    TrainCostModel,
)


def row_of(message: Message) -> tuple[Any, str | int]:
    """Table and key of the row that a worker claims for the message. Raises TypeError where there is none."""
    match message:
        case IngestModel():
            return Model, message.model_id
        case ImportRecords():
            return RecordImport, message.import_id
        case PrepareJob():
            return Job, message.job_id
        case ProposeRound():
            return Round, message.round_id
        case ListProgram():
            return Listing, message.listing_id
        case JudgeProposals():
            return ProposalSet, message.set_id
        case TrainCostModel():
            return CostModelRow, message.cost_model_id
    raise TypeError(f"{message.task} is about no row")
