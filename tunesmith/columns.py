"""What a model's tasks contribute to its latency, as columns: ``tunesmith.alternatives`` for thousands at once. Pure.

A page of a job with ten thousand tasks is looked at twice a second, and as many objects take longer to make than the
page may take. A test holds the two definitions together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tunesmith.space.base import Bools, Floats, Ints


@dataclass(frozen=True)
class LatencyColumns:
    """Tasks of one model, in any order; the attributes of :class:`tunesmith.alternatives.TaskLatency`.

    Attributes:
        ids: task ids, int64 [tasks].
        direct: id of the direct task that an alternative may replace, 0 for a direct task, -1 where it is missing,
            int64 [tasks].
        weight: how often the model runs the task, float64 [tasks].
        untuned: with the default schedule, in seconds, NaN while unknown, float64 [tasks].
        best: with the best schedule that was found, likewise.
        rough: with the default schedule, as it was timed once at the job's start, likewise; it counts while nothing
            else is known of the task's place.
    """

    ids: Ints
    direct: Ints
    weight: Floats
    untuned: Floats
    best: Floats
    rough: Floats

    @cached_property
    def is_direct(self) -> Bools:
        """True for direct tasks, bool [tasks]."""
        found: Bools = self.direct == 0
        return found

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """Rows of the alternatives whose direct task is there, and the rows of those: int64 [pairs] each."""
        alternative = np.flatnonzero(self.direct > 0)
        order = np.argsort(self.ids, kind="stable")
        return alternative, order[np.searchsorted(self.ids, self.direct[alternative], sorter=order)]

    @cached_property
    def offered(self) -> Floats:
        """Best latency of schedules that beat the task's own default one in seconds, NaN without, float64 [tasks]."""
        return np.where(self.best >= self.untuned, np.nan, self.best)

    @cached_property
    def other(self) -> Floats:
        """Best latency that a direct task's alternatives offer in seconds, NaN without any, float64 [tasks]."""
        alternative, direct = self.pairs
        found = np.full(len(self.ids), np.nan)
        np.fmin.at(found, direct, self.offered[alternative])
        return found

    @cached_property
    def helped(self) -> Bools:
        """True where the other task of the place has a schedule that was found, bool [tasks]."""
        alternative, direct = self.pairs
        found = ~np.isnan(self.other)
        found[alternative] = ~np.isnan(self.best[direct])
        return found

    @cached_property
    def known(self) -> Bools:
        """True where there is any latency of the task itself, bool [tasks]."""
        found: Bools = ~np.isnan(np.fmin(self.untuned, self.best))
        return found

    @cached_property
    def current(self) -> Floats:
        """Latency in use of the task itself in seconds, NaN without any, float64 [tasks]. An alternative has that of a
        schedule found for it that beats its own default one."""
        return np.where(self.is_direct, np.fmin(self.best, self.untuned), self.offered)

    @cached_property
    def in_use(self) -> Bools:
        """Whether the model runs the task as things stand, see :func:`tunesmith.alternatives.in_use`, bool [tasks]."""
        alternative, direct = self.pairs
        mine, others = self.current[alternative], self.current[direct]
        faster = (mine < others) | (np.isnan(others) & ~np.isnan(mine))
        used: Bools = self.is_direct.copy()
        used[direct[faster]], used[alternative[faster]] = False, True
        return used

    @cached_property
    def start(self) -> Floats:
        """Latency of a direct task's place before any search in seconds, NaN without any, float64 [tasks]. It is the
        best one where the default schedule does not run, the rough one where nothing else is known."""
        found = np.where(np.isnan(self.untuned), np.fmin(self.best, self.other), self.untuned)
        return np.where(np.isnan(found), self.rough, found)

    @cached_property
    def place(self) -> Floats:
        """Latency of a direct task's place as things stand in seconds, the rough one where nothing was measured, NaN
        without any, float64 [tasks]."""
        found = np.fmin(np.fmin(self.best, self.other), self.untuned)
        return np.where(np.isnan(found), self.rough, found)

    @cached_property
    def guessed(self) -> Bools:
        """True for direct tasks whose place counts at its rough latency, bool [tasks]."""
        measured = np.fmin(np.fmin(self.best, self.other), self.untuned)
        found: Bools = self.is_direct & np.isnan(measured) & ~np.isnan(self.rough)
        return found


def total(values: Floats) -> float | None:
    """The sum of what is known, one after the other as a database forms it; None where nothing is."""
    known = values[~np.isnan(values)]
    return float(np.add.accumulate(known)[-1]) if len(known) else None
