"""The family bandit: an upper confidence bound on the latency that a task's next round saves the model.

After DynaTune (Zhang et al., ICLR 2021), whose score adds GFLOP/s to a bonus without a unit; here both are seconds of
the model's latency. The belief behind it is that of ``tunesmith.allocate.jumps``, which families share (FamilySeer,
Zhang et al., arXiv 2201.00194, 2022).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tunesmith.allocate.base import Choice, TaskView
from tunesmith.allocate.jumps import Belief, JumpOptions, belief
from tunesmith.allocate.warmup import WarmedUpAllocator, rounds

NO_RESULT = -1e9
"""Score of a task without any valid latency, less its rounds: those come last, and take turns."""


@dataclass(frozen=True)
class BanditOptions:
    """``exploration``: weight of the deviation, times UCB1's factor (Auer et al., 2002); ``jumps``: of the belief."""

    exploration: float = 0.1
    jumps: JumpOptions = field(default_factory=JumpOptions)


@dataclass(frozen=True)
class Arm:
    """One task's terms, in seconds of the model's latency that its next round is expected to save."""

    gain: float
    deviation: float
    bonus: float

    @property
    def score(self) -> float:
        """The upper confidence bound."""
        return self.gain + self.bonus


class BanditAllocator(WarmedUpAllocator):
    """Chooses the largest upper confidence bound, which is the score."""

    def __init__(self, seed: int = 0, options: BanditOptions = BanditOptions()) -> None:
        super().__init__(seed)
        self.options = options
        self._arms: dict[int, Arm] = {}

    def _next(self, alive: Sequence[TaskView], tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice:
        self._arms = self.arms(tasks, in_flight)
        scores = {t.id: self._arms[t.id].score if t.id in self._arms else NO_RESULT - rounds(t, in_flight)
                  for t in alive}
        best = max(alive, key=lambda t: scores[t.id]).id
        return Choice(best, scores, self._reason(best))

    def arms(self, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> dict[int, Arm]:
        """The terms of every task with a valid latency, exhausted ones included: their families learn from them."""
        known = [(t, [value for value in t.history if math.isfinite(value)]) for t in tasks]
        known = [(t, history) for t, history in known if history]
        if not known:
            return {}
        families = {name: number for number, name in enumerate(dict.fromkeys(t.family for t, _ in known))}
        found = belief([h for _, h in known], np.array([families[t.family] for t, _ in known]), self.options.jumps)
        return self._scored(known, found, in_flight)

    def _scored(
        self, known: Sequence[tuple[TaskView, list[float]]], found: Belief, in_flight: Mapping[int, int]
    ) -> dict[int, Arm]:
        done = np.array([len(history) for _, history in known])
        flying = np.array([in_flight.get(t.id, 0) for t, _ in known])
        worth = np.array([t.weight * history[-1] for t, history in known])
        mean, deviation = found.saved(done, flying)
        tried = done + flying
        wide = self.options.exploration * np.sqrt(2.0 * np.log(tried.sum()) / tried)
        return {t.id: Arm(float(w * m), float(w * d), float(w * d * b))
                for (t, _), w, m, d, b in zip(known, worth, mean, deviation, wide, strict=True)}

    def _reason(self, task: int) -> str:
        arm = self._arms.get(task)
        if arm is None:
            return "no task left has a valid result yet"
        return f"expected to save {arm.gain:.3g} s, give or take {arm.deviation:.3g} s"

    def explain(self) -> dict[str, Any]:
        """Terms of every task with a valid result: gain, deviation, bonus, in seconds."""
        return {str(task): {"gain": arm.gain, "deviation": arm.deviation, "bonus": arm.bonus}
                for task, arm in self._arms.items()}
