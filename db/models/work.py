"""Work that workers do under a lease: its kinds, what they are called, and the states in which a worker must act."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar, Union

from db.models import Batch, CostModelRow, Evaluation, Job, Listing, Model, ProposalSet, RecordImport, Round
from tunesmith.messages import INGEST, SEARCH, TRAIN
from tunesmith.states import OPEN_WORK, JobState, ModelState, RoundState

Work = Union[Model, Job, Round, Batch, Evaluation, CostModelRow, RecordImport, Listing, ProposalSet]
Row = TypeVar("Row", Model, Job, Round, Batch, Evaluation, CostModelRow, RecordImport, Listing, ProposalSet)

NOUNS: dict[type, str] = {
    Model: "model",
    Job: "job",
    Round: "round",
    Batch: "batch",
    Evaluation: "evaluation",
    CostModelRow: "cost_model",
    RecordImport: "record_import",
    Listing: "listing",
    ProposalSet: "proposal_set",
}
"""What messages and events call each kind."""
QUEUES: Mapping[type, str] = {
    Model: INGEST,
    Job: INGEST,
    RecordImport: INGEST,
    Round: SEARCH,
    Listing: SEARCH,
    ProposalSet: SEARCH,
    CostModelRow: TRAIN,
}
"""Where messages about a kind go. Those about the others go to the queue of their device class."""
ACTIVE: Mapping[type, tuple[enum.Enum, ...]] = {
    Model: (ModelState.IMPORTING,),
    Job: (JobState.PREPARING,),
    Round: (RoundState.PROPOSING,),
    Batch: OPEN_WORK,
    Evaluation: OPEN_WORK,
    CostModelRow: OPEN_WORK,
    RecordImport: OPEN_WORK,
    Listing: OPEN_WORK,
    ProposalSet: OPEN_WORK,
}
"""The states in which a worker must act on a row."""
