"""The gradient allocator of Ansor (Zheng et al., OSDI 2020) as TVM's MetaSchedule computes it.

With L the best latency after each of a task's n rounds, w its weight and W a window of rounds::

    backward = (L[n-1-W] - L[n-1]) / W        0 while n < W + 1
    forward  = L[n-1] / n
    gradient = w * (alpha * backward + (1 - alpha) * forward)

The task with the largest gradient is next: what the last rounds saved, and what the next may save if the latency
fell in proportion to the effort. A round under way counts as one that has not improved anything yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.allocate.base import Choice, TaskView
from tunesmith.allocate.warmup import WarmedUpAllocator, rounds

NO_RESULT = -1e9
"""Gradient of a task that was tried and has no valid latency: last in line, as in MetaSchedule."""


@dataclass(frozen=True)
class GradientOptions:
    """``alpha``: weight of the past against the forecast; ``window``: rounds that the past reaches back."""

    alpha: float = 0.2
    window: int = 3


@dataclass(frozen=True)
class Gradient:
    """One task's terms, in seconds saved per round (before the weight)."""

    backward: float
    forward: float
    total: float


class GradientAllocator(WarmedUpAllocator):
    """Chooses the largest gradient, at random among equals; the score is the gradient."""

    def __init__(self, seed: int = 0, options: GradientOptions = GradientOptions()) -> None:
        super().__init__(seed)
        self.options = options

    def _next(self, alive: Sequence[TaskView], tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice:
        scores = {t.id: self.gradient(t, in_flight.get(t.id, 0)).total for t in alive}
        best = max(scores.values())
        equal = sorted(task for task, score in scores.items() if score == best)
        total = sum(rounds(t, in_flight) for t in tasks)
        chosen = equal[int(np.random.default_rng([self.seed, total]).integers(len(equal)))]
        return Choice(chosen, scores, self._reason(best), max(best, 0.0))

    def gradient(self, task: TaskView, in_flight: int) -> Gradient:
        """The terms of a task that had or is having a round."""
        latency = self._history(task, in_flight)
        if not latency or not math.isfinite(latency[-1]):
            return Gradient(0.0, 0.0, NO_RESULT)
        n, window, alpha = len(latency), self.options.window, self.options.alpha
        backward = (latency[n - 1 - window] - latency[n - 1]) / window if n >= window + 1 else 0.0
        forward = latency[n - 1] / n
        return Gradient(backward, forward, task.weight * (alpha * backward + (1 - alpha) * forward))

    @staticmethod
    def _history(task: TaskView, in_flight: int) -> list[float]:
        """Best latency after each round. Rounds before the first valid result count as its first known latency, so
        that the step from nothing to something is no improvement."""
        known = [value for value in task.history if math.isfinite(value)]
        first = known[0] if known else math.inf
        past = [value if math.isfinite(value) else first for value in task.history]
        return past + [past[-1] if past else first] * in_flight

    @staticmethod
    def _reason(total: float) -> str:
        if total == NO_RESULT:
            return "no task left has a valid result yet"
        return f"largest expected saving: {total:.3g} s per round"
