"""The allocator's contract: which task gets the next slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple


class TaskView(NamedTuple):
    """What an allocator may know about a task. A tuple, because a decision may be about thousands of them.

    Attributes:
        id: stable id within the job.
        weight: how often the model runs the task.
        flops: operations of one run.
        family: name of its family.
        untuned: latency of the default schedule in seconds, None while unknown.
        history: best latency in seconds after each finished round, oldest first; infinity before the first
            valid result. The champion of an earlier job counts as what a first round brought.
        trials: candidates measured.
        seconds: that one of its rounds takes, on average; None while unknown.
        exhausted: True when there is nothing left to propose.
        alternative_of: id of the direct task whose place in the model it contends for; None for a direct one.
    """

    id: int
    weight: float
    flops: float
    family: str
    untuned: float | None = None
    history: tuple[float, ...] = ()
    trials: int = 0
    seconds: float | None = None
    exhausted: bool = False
    alternative_of: int | None = None


@dataclass(frozen=True)
class Choice:
    """The chosen task, and why, for people.

    Attributes:
        scores: by task id.
        reason: a sentence.
        gain: seconds of the model's latency that the round is expected to save; None where that is not asked.
        deviations: standard deviation by task id, in the scores' unit, of the tasks that the allocator has one of.
    """

    task: int
    scores: Mapping[int, float]
    reason: str
    gain: float | None = None
    deviations: Mapping[int, float] = field(default_factory=dict)


class Allocator(ABC):
    """Chooses the next task from the tasks' histories.

    Contract, checked by ``tunesmith.testing.allocators.AllocatorConformance``: built as ``cls(seed=int)``;
    deterministic given its inputs; never chooses an exhausted task; ``None`` when none is left.

    Attributes:
        small_first_rounds: whether a task's first round has few candidates, while others wait for theirs; else all
            rounds have one size, as published allocators' do.
    """

    small_first_rounds: ClassVar[bool] = False

    @abstractmethod
    def choose(self, tasks: Sequence[TaskView], in_flight: Mapping[int, int]) -> Choice | None:
        """The task for the next slot. ``in_flight``: rounds under way by task id."""
