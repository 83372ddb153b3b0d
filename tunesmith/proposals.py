"""Candidates that are proposed from outside: by whom, how many, and what becomes of one."""

from __future__ import annotations

import enum
import math
from typing import Final

MAX_PROPOSALS: Final = 64
"""Candidates of one request."""
MAX_WAITING: Final = 256
"""Candidates of a task that may wait for a verdict or a place in a batch."""
MAX_PROPOSED: Final = 10_000
"""Candidates that are ever proposed for a task, those that were only judged among them."""
MAX_AUTHOR: Final = 100
MAX_REASON: Final = 500
DEFAULT_SHARE: Final = 0.25
"""Part of a task's batches, and of a job's rounds, that proposals may have."""


def places_for_proposals(share: float, size: int) -> int:
    """How many of a batch's ``size`` candidates may be proposed from outside: one at least, where any may be."""
    return math.ceil(share * size - 1e-9)


class ProposalSource(str, enum.Enum):
    """Who proposes."""

    PERSON = "person"
    SCRIPT = "script"
    AGENT = "agent"


class ProposalState(str, enum.Enum):
    """What has become of a proposed candidate."""

    JUDGING = "judging"  # a worker is to say whether it is valid
    REFUSED = "refused"  # it does not apply, or is a program that the task had already
    JUDGED = "judged"  # valid, and was not to be measured
    WAITING = "waiting"  # for a place in a batch
    MEASURING = "measuring"
    MEASURED = "measured"
    FAILED = "failed"  # it was tried and has no latency
    DROPPED = "dropped"  # the job ended before it was measured, or nobody could judge it
