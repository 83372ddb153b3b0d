"""The family bandit: an upper confidence bound on the latency that a second of tuning saves the model.

After DynaTune (Zhang et al., ICLR 2021), whose score adds GFLOP/s to a bonus without a unit; here both are seconds of
the model's latency for each second of tuning. The belief behind it is that of ``tunesmith.allocate.jumps``, which
families share (FamilySeer, Zhang et al., arXiv 2201.00194, 2022).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tunesmith.allocate.alternatives import contenders, first_round_in_flight, places, shared_first_gains
from tunesmith.allocate.base import Allocator, Choice, TaskView
from tunesmith.allocate.first_rounds import first_gains
from tunesmith.allocate.jumps import Curves, JumpOptions, posterior_of
from tunesmith.allocate.retries import largest_gain, retry_due
from tunesmith.allocate.table import Table
from tunesmith.allocate.warmup import open_tasks, rounds
from tunesmith.space.base import Bools, Floats

NO_RESULT = -1e9
"""Score of a task without any valid latency, less its rounds: between its tries (``tunesmith.allocate.retries``) it
comes last."""


@dataclass(frozen=True)
class BanditOptions:
    """``exploration``: weight of the deviation, times UCB1's factor (Auer et al., 2002); ``jumps``: of the belief."""

    exploration: float = 0.1
    jumps: JumpOptions = field(default_factory=JumpOptions)


@dataclass(frozen=True)
class Arms:
    """The tasks' terms, each float64 [tasks].

    Attributes:
        ids: task ids.
        eligible: which of them may have a round, bool [tasks].
        rated: which of them something can be told of; the terms of the others are 0.
        gain: seconds of the model's latency that a task's next round is expected to save.
        deviation: standard deviation of the gain, in seconds.
        bonus: for what is uncertain, in seconds.
        seconds: that the round takes.
        tried: rounds that the task has had or is having.
        unknown: true where the task's place in the model has neither a latency nor a round in flight, bool [tasks].
        retry_gain: seconds of the model's latency that a task without any valid result may save for a second of tuning
            when it is due to be tried again, 0 for all others; see ``tunesmith.allocate.retries``.
    """

    ids: tuple[int, ...]
    eligible: Bools
    rated: Bools
    gain: Floats
    deviation: Floats
    bonus: Floats
    seconds: Floats
    tried: Floats
    unknown: Bools
    retry_gain: Floats

    @property
    def score(self) -> Floats:
        """The upper confidence bounds, for a second of tuning."""
        return np.where(self.rated, (self.gain + self.bonus) / self.seconds, NO_RESULT - self.tried)


class BanditAllocator(Allocator):
    """Chooses the largest upper confidence bound, which is the score; first among the places of the model of which
    nothing is known yet."""

    small_first_rounds = True

    def __init__(self, seed: int = 0, options: BanditOptions = BanditOptions()) -> None:
        self.seed, self.options = seed, options

    def choose(self, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice | None:
        """See :class:`Allocator`; as long as nothing is known of any task, those come first that may cost most."""
        if all(task.exhausted for task in tasks):
            return None
        arms = self.arms(tasks, in_flight)
        eligible = arms.eligible
        if not arms.rated[eligible].any():
            fresh = open_tasks([task for task in tasks if not rounds(task, in_flight)])
            if fresh:
                places = {task.id: float(-i) for i, task in enumerate(fresh)}
                return Choice(fresh[0].id, places, "first round of the task")
        score, candidates = arms.score, eligible
        if (eligible & arms.unknown).any():
            candidates = eligible & arms.unknown
        best = int(np.where(candidates, score, -np.inf).argmax())
        repeated = int(np.where(eligible, arms.retry_gain, 0.0).argmax())
        if arms.retry_gain[repeated] > max(score[best], 0.0) and eligible[repeated] and not arms.unknown[best]:
            best = repeated
        there = eligible.tolist()
        scores = dict(itertools.compress(zip(arms.ids, score.tolist(), strict=True), there))
        told = np.flatnonzero(eligible & (arms.deviation > 0))
        spread = (arms.deviation / arms.seconds)[told].tolist()
        deviations = {arms.ids[row]: value for row, value in zip(told.tolist(), spread, strict=True)}
        return Choice(arms.ids[best], scores, self._reason(arms, best), float(arms.gain[best]), deviations)

    def arms(self, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Arms:
        """The terms of every task, exhausted ones included: their families learn from them."""
        table = Table.of(tasks)
        curves = Curves.of(table.histories)
        flying = np.array([in_flight.get(task, 0) for task in table.ids], dtype=np.int64)
        mean, deviation = posterior_of(curves, table.family, self.options.jumps, table.flops).saved(
            curves.rounds, flying
        )
        place = places(tasks)
        known, other = np.isfinite(curves.last), contenders(place, curves.last)
        latency = np.where(known, curves.last, 0.0)
        gain = table.weight * np.maximum(latency * mean - np.maximum(latency - other, 0.0), 0.0)
        waits, rated = first_round_in_flight(place, tasks, in_flight), known.copy()
        first, value = first_gains(table, curves.last, other)
        rated[first] = (flying[first] == 0) & ~waits[first]
        gain[first] = shared_first_gains(place, first, value, curves.last)
        tried = np.maximum(curves.rounds + flying, 1)
        wide = self.options.exploration * np.sqrt(2.0 * np.log(tried.sum()) / tried)
        deviation = table.weight * latency * deviation
        had = np.array(list(map(len, table.histories)), dtype=np.float64)
        lacking = ~known & ~np.isfinite(other)
        unknown = (had + flying == 0) & lacking & ~waits
        return Arms(
            table.ids,
            ~table.exhausted,
            rated,
            gain,
            deviation,
            deviation * wide,
            table.seconds,
            had + flying,
            unknown,
            largest_gain(table, retry_due(had, flying.astype(np.float64), lacking)) / table.seconds,
        )

    @staticmethod
    def _reason(arms: Arms, best: int) -> str:
        if arms.retry_gain[best]:
            return "none of its rounds had a valid result: another try"
        if not arms.rated[best]:
            return "no task left has a valid result yet"
        return f"expected to save {arms.gain[best]:.3g} s, give or take {arms.deviation[best]:.3g} s"
