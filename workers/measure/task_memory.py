"""What the worker remembers of the tasks that it measures: who leads, which code was measured, how long builds take.

Two batches of a task are under way at once, so that the second was composed before the first one's winner was known.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass

from cachetools import LRUCache

from tunesmith.messages import MeasureBatch, WireCandidate
from workers.protocol import RunOutcome

TASKS = 256
CODES = 4096
BUILDS = 64
FEW_BUILDS = 8
BUILD_ABORT = 6.0
"""A build that takes this many times as long as the builds of its task usually do is given up. Its code is enormous,
and no kernel can be timed on the host while it is compiled."""
BUILD_ABORT_SECONDS = 0.5
"""No build is given up earlier: the new builder must read the workload again."""


@dataclass(frozen=True)
class Champion:
    """The candidate to beat and its latency in seconds; ``candidate`` None: the default schedule, or nothing yet."""

    candidate: WireCandidate | None
    seconds: float | None


class TaskMemory:
    """The champion and the measured codes by job and workload; bounded, the least recently used goes first."""

    def __init__(self) -> None:
        self._champions: LRUCache[tuple[str, str], Champion] = LRUCache(TASKS)
        self._codes: LRUCache[tuple[str, str, str], RunOutcome] = LRUCache(CODES)
        self._builds: LRUCache[str, deque[float]] = LRUCache(TASKS)

    def champion(self, batch: MeasureBatch) -> Champion:
        """The better one of the message's and of the one remembered."""
        said = Champion(batch.champion, batch.incumbent_seconds)
        known = self._champions.get((batch.job_id, batch.workload))
        if known is None or (said.seconds is not None and said.seconds <= (known.seconds or 0.0)):
            return said
        return known

    def promote(self, batch: MeasureBatch, candidate: WireCandidate, seconds: float) -> None:
        """A confirmed winner."""
        self._champions[batch.job_id, batch.workload] = Champion(candidate.model_copy(update={"index": -1}), seconds)

    def measured(self, batch: MeasureBatch, code_hash: str) -> RunOutcome | None:
        """The outcome of a candidate of the task that had the same code."""
        return self._codes.get((batch.job_id, batch.workload, code_hash)) if code_hash else None

    def remember(self, batch: MeasureBatch, code_hash: str, outcome: RunOutcome) -> None:
        """Keep an outcome for candidates with equal code."""
        self._codes[batch.job_id, batch.workload, code_hash] = outcome

    def built(self, batch: MeasureBatch, seconds: float) -> None:
        """Note how long a build took that succeeded."""
        self._builds.setdefault(batch.workload, deque(maxlen=BUILDS)).append(seconds)

    def build_timeout(self, batch: MeasureBatch) -> float:
        """Seconds that a build of the task may take: by the limits, and by what its builds usually take."""
        times = self._builds.get(batch.workload, ())
        if len(times) < FEW_BUILDS:
            return batch.limits.build_timeout
        usual = max(BUILD_ABORT_SECONDS, BUILD_ABORT * statistics.median(times))
        return min(batch.limits.build_timeout, usual)
