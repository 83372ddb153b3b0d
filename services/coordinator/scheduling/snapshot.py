"""What the planner may know: plain frozen values, read from the database in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tunesmith.allocate.base import TaskView
from tunesmith.dataset.collecting import Collecting, given_up
from tunesmith.options import JobOptions
from tunesmith.states import JobState, ModelState, WorkState

ROUND_SIZE = 16
"""Candidates of a usual round."""


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A task of a job.

    Attributes:
        id: id of the ``job_tasks`` row.
        useless: trials that gave no label of their own: failures, and those whose code another one had.
        earlier_labels: what earlier collecting jobs left.
        trials_in_flight: trials that open rounds may still add.
        known: latency in seconds of the champion that an earlier job left; None without one.
        adopted: the same of one that another job found since; None where the best one is the job's own.
        history: best latency in seconds after each finished round, oldest first.
        seconds: that a candidate took on average, in a builder and on the device; None before the first.
        in_flight: rounds under way, proposals included.
        proposing: True while one of them is being proposed.
        rounds: rounds ever opened.
        promised: True where its first round measures the schedule that it was given when the job was prepared.
        answered: True once it was given a schedule without a measurement, or there is none to give.
        answering: True while that is under way.
        proposed: valid candidates that were proposed from outside and are in no batch.
        alternative_of: id of the direct task that this one may replace; None for a direct one.
        shared: target and workload, which jobs may tune in common; None where this job keeps to itself.
    """

    id: int
    weight: float = 1.0
    flops: float = 0.0
    family: str = ""
    tunable: bool = True
    exhausted: bool = False
    trials: int = 0
    useless: int = 0
    earlier_labels: int = 0
    trials_in_flight: int = 0
    untuned: float | None = None
    best: float | None = None
    known: float | None = None
    adopted: float | None = None
    history: tuple[float, ...] = ()
    seconds: float | None = None
    in_flight: int = 0
    proposing: bool = False
    rounds: int = 0
    promised: bool = False
    answered: bool = False
    answering: bool = False
    proposed: int = 0
    alternative_of: int | None = None
    shared: tuple[str, str] | None = None

    @property
    def fresh(self) -> bool:
        """True for one that is still to be tried for the first time, by whichever job."""
        return not (self.rounds or self.history) and self.known is None and self.adopted is None

    @property
    def labels(self) -> int:
        """Labels by now, those of earlier collecting jobs included."""
        return self.earlier_labels + self.trials - self.useless

    def lacks(self, collecting: Collecting) -> int:
        """Labels that a collecting job still wants of it; none where it is exhausted, or hardly anything of it runs."""
        if not self.tunable or self.exhausted or given_up(self.useless, self.trials - self.useless):
            return 0
        return collecting.wanted(self.labels)

    @property
    def curve(self) -> tuple[float, ...]:
        """See :func:`learning_curve`."""
        return learning_curve(self.history, self.known, self.adopted)

    def view(self, free: bool) -> TaskView:
        """The task as allocators see it; one that is not ``free`` to have a round counts as exhausted."""
        seconds = ROUND_SIZE * self.seconds if self.seconds else None
        curve = self.history if self.known is None and self.adopted is None else self.curve
        # By position, and without a call that is not needed: a plan makes thousands.
        return TaskView(
            self.id,
            self.weight,
            self.flops,
            self.family,
            self.untuned,
            curve,
            self.trials,
            seconds,
            not free,
            self.alternative_of,
        )


def learning_curve(history: tuple[float, ...], known: float | None, best: float | None) -> tuple[float, ...]:
    """A task's best latencies in seconds, oldest first, where what others found counts as a round that brought it.

    Args:
        history: after each of the job's own rounds.
        known: latency of the champion with which the job began; None without one.
        best: latency of the task's champion by now; None if the job's own rounds are to say.
    """
    curve = history if known is None else (known, *history)
    return curve if best is None or (curve and best >= curve[-1]) else (*curve, best)


@dataclass(frozen=True)
class TrainingSnapshot:
    """What the training rule needs: valid records of the job with features, and what the newest cost model saw."""

    records: int = 0
    trained_on: int = 0
    under_way: bool = False
    failures: int = 0


@dataclass(frozen=True)
class JobSnapshot:
    """A job that is not over.

    Attributes:
        owner: the user whose job it is; users share a device class equally.
        collecting: what a collecting job is asked for; None for one that tunes.
        elapsed: seconds since submission, without pauses and waits for a device.
        clock_stopped: True while that clock stands.
        trials_in_flight: trials that open rounds may still add.
        last_round: id of the newest round, for serving jobs in turn.
        next_number: number of the next round.
        compared: true if its check times other runtimes, too.
        evaluation: state of the end-to-end check, None while there is none.
        evaluation_problem: why it failed.
    """

    id: str
    state: JobState
    model_state: ModelState = ModelState.READY
    model_problem: Mapping[str, Any] | None = None
    device_class: str = ""
    owner: str = "local"
    options: JobOptions = field(default_factory=JobOptions)
    collecting: Collecting | None = None
    budget_trials: int | None = None
    budget_seconds: float | None = None
    stop_when_converged: bool = False
    elapsed: float = 0.0
    clock_stopped: bool = False
    trials_in_flight: int = 0
    last_round: int = 0
    next_number: int = 1
    tasks: tuple[TaskSnapshot, ...] = ()
    training: TrainingSnapshot = field(default_factory=TrainingSnapshot)
    compared: bool = False
    evaluation: WorkState | None = None
    evaluation_problem: Mapping[str, Any] | None = None
    stop_reason: str | None = None

    @property
    def on_cpu(self) -> bool:
        """True where the job's target is a CPU."""
        return self.device_class.startswith("llvm")

    @cached_property
    def trials(self) -> int:
        """Candidates measured so far."""
        return sum(task.trials for task in self.tasks)

    @cached_property
    def alternatives(self) -> tuple[TaskSnapshot, ...]:
        """The tasks that may replace a direct one."""
        return tuple(task for task in self.tasks if task.alternative_of is not None)

    @cached_property
    def tunable(self) -> int:
        """Tasks that there is anything to tune of."""
        return sum(task.tunable for task in self.tasks)

    @cached_property
    def unanswered(self) -> tuple[TaskSnapshot, ...]:
        """Tasks that would keep their default schedules if the time ended now, and that nobody works on. Of a pair it
        is the direct one."""
        if self.collecting is not None or self.budget_seconds is None or not self.on_cpu:
            return ()
        replaced = {
            task.alternative_of
            for task in self.alternatives
            if task.best is not None or task.in_flight or task.answered
        }
        return tuple(
            task
            for task in self.tasks
            if task.tunable and not task.exhausted and task.fresh and not task.answered and not task.answering
            if task.alternative_of is None and task.id not in replaced
        )

    @cached_property
    def flying(self) -> tuple[TaskSnapshot, ...]:
        """The tasks with rounds under way."""
        return tuple(task for task in self.tasks if task.in_flight)

    @cached_property
    def rounds_in_flight(self) -> int:
        """Rounds under way."""
        return sum(task.in_flight for task in self.flying)

    @cached_property
    def rounds(self) -> int:
        """Rounds ever opened."""
        return sum(task.rounds for task in self.tasks)


@dataclass(frozen=True)
class Snapshot:
    """Everything the planner sees. ``slots``: live device slots by device class."""

    jobs: tuple[JobSnapshot, ...] = ()
    slots: Mapping[str, int] = field(default_factory=dict)
