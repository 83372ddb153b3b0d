"""What the worker remembers of the tasks that it measures: who leads, and which code was measured already.

Two batches of a task are under way at once, so that the second was composed before the first one's winner was known.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from tunesmith.messages import MeasureBatch, WireCandidate
from workers.tvm_backend.measuring import RunOutcome

TASKS = 256
CODES = 4096


@dataclass(frozen=True)
class Champion:
    """The candidate to beat and its latency in seconds; ``candidate`` None: the default schedule, or nothing yet."""

    candidate: WireCandidate | None
    seconds: float | None


class Standing:
    """The champion and the measured codes by job and workload; bounded, the least recently used goes first."""

    def __init__(self) -> None:
        self._champions: OrderedDict[tuple[str, str], Champion] = OrderedDict()
        self._codes: OrderedDict[tuple[str, str, str], RunOutcome] = OrderedDict()

    def champion(self, batch: MeasureBatch) -> Champion:
        """The better one of the message's and of the one remembered."""
        said = Champion(batch.champion, batch.incumbent_seconds)
        known = self._champions.get((batch.job_id, batch.workload))
        if known is None or (said.seconds is not None and said.seconds <= (known.seconds or 0.0)):
            return said
        return known

    def crown(self, batch: MeasureBatch, candidate: WireCandidate, seconds: float) -> None:
        """A confirmed winner."""
        key = batch.job_id, batch.workload
        self._champions[key] = Champion(candidate.model_copy(update={"index": -1}), seconds)
        self._champions.move_to_end(key)
        while len(self._champions) > TASKS:
            self._champions.popitem(last=False)

    def measured(self, batch: MeasureBatch, code_hash: str) -> RunOutcome | None:
        """The outcome of a candidate of the task that had the same code."""
        return self._codes.get((batch.job_id, batch.workload, code_hash)) if code_hash else None

    def remember(self, batch: MeasureBatch, code_hash: str, outcome: RunOutcome) -> None:
        """Keep an outcome for candidates with equal code."""
        self._codes[batch.job_id, batch.workload, code_hash] = outcome
        while len(self._codes) > CODES:
            self._codes.popitem(last=False)
