"""States of jobs, models, rounds and leased work, and the only transitions that are legal.

``db.transactions`` performs a transition by compare-and-set, together with its event row, in one
transaction; nothing else may write a state column.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Set


class JobState(str, enum.Enum):
    """Life of a tuning job."""

    QUEUED = "queued"  # waits for its model to be imported, once more where its precision was chosen meanwhile
    PREPARING = "preparing"  # design spaces are generated
    RUNNING = "running"
    PAUSED = "paused"
    FINISHING = "finishing"  # the compiled model is verified and timed end to end
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


class ModelState(str, enum.Enum):
    """Life of an uploaded model."""

    IMPORTING = "importing"
    READY = "ready"
    REJECTED = "rejected"


class RoundState(str, enum.Enum):
    """Life of one round of tuning of one task."""

    PROPOSING = "proposing"
    MEASURING = "measuring"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WorkState(str, enum.Enum):
    """Life of a batch, an evaluation, a training or an import of records: work that a worker does under a lease."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


NOUNS: Mapping[str, type[JobState | ModelState | RoundState | WorkState]] = {
    "job": JobState,
    "model": ModelState,
    "round": RoundState,
    "batch": WorkState,
    "evaluation": WorkState,
    "cost_model": WorkState,
    "record_import": WorkState,
    "listing": WorkState,
    "proposal_set": WorkState,
}
"""What has a state, by the name that events have for it."""

_J, _M, _R, _W = JobState, ModelState, RoundState, WorkState

TRANSITIONS: Mapping[type[enum.Enum], Mapping[enum.Enum, Set[enum.Enum]]] = {
    JobState: {
        _J.QUEUED: {_J.PREPARING, _J.FAILED, _J.CANCELLED, _J.PAUSED},
        _J.PREPARING: {_J.QUEUED, _J.RUNNING, _J.FAILED, _J.CANCELLING, _J.CANCELLED},
        _J.RUNNING: {_J.PAUSED, _J.FINISHING, _J.FAILED, _J.CANCELLING},
        _J.PAUSED: {_J.QUEUED, _J.RUNNING, _J.CANCELLING, _J.CANCELLED, _J.FAILED},
        _J.FINISHING: {_J.SUCCEEDED, _J.FAILED, _J.CANCELLING},
        _J.CANCELLING: {_J.CANCELLED},
    },
    ModelState: {
        _M.IMPORTING: {_M.READY, _M.REJECTED},
        _M.REJECTED: {_M.IMPORTING},
    },
    RoundState: {
        _R.PROPOSING: {_R.MEASURING, _R.DONE, _R.FAILED, _R.CANCELLED},
        _R.MEASURING: {_R.DONE, _R.FAILED, _R.CANCELLED},
    },
    WorkState: {
        _W.QUEUED: {_W.RUNNING, _W.DONE, _W.FAILED, _W.CANCELLED},
        _W.RUNNING: {_W.QUEUED, _W.DONE, _W.FAILED, _W.CANCELLED},
    },
}
"""Final states are left out. By kind, because states of two kinds that have the same name and value are equal, as
strings are."""


def can_move(old: enum.Enum, new: enum.Enum) -> bool:
    """True when ``old -> new`` is a legal transition."""
    return type(new) is type(old) and new in TRANSITIONS[type(old)].get(old, ())


def is_final(state: enum.Enum) -> bool:
    """True when nothing follows ``state``."""
    return state not in TRANSITIONS[type(state)]


OPEN_JOBS = tuple(state for state in JobState if not is_final(state))
ENDED_JOBS = tuple(state for state in JobState if is_final(state))
OPEN_ROUNDS = tuple(state for state in RoundState if not is_final(state))
OPEN_WORK = tuple(state for state in WorkState if not is_final(state))


def mermaid() -> str:
    """The transitions as a Mermaid state diagram, one block per kind of state."""
    blocks = []
    for kind in dict.fromkeys(NOUNS.values()):
        lines = [f"%% {kind.__name__}", "stateDiagram-v2"]
        for old in kind:
            lines += [f"  {old.value} --> {new.value}" for new in kind if can_move(old, new)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
