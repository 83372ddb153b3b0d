"""Which task of a job gets the next round. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from services.coordinator.scheduling import budget
from services.coordinator.scheduling.actions import OpenRound
from services.coordinator.scheduling.snapshot import JobSnapshot, TaskSnapshot
from tunesmith.allocate.base import Choice, TaskView
from tunesmith.allocate.registry import make_allocator


def open_to_rounds(task: TaskSnapshot) -> bool:
    """True when a task may ever get another round."""
    return task.tunable and not task.exhausted


def next_round(job: JobSnapshot, slots: int) -> tuple[OpenRound, JobSnapshot] | None:
    """The next round of ``job`` and the job as it stands once that is open; None when nothing may be opened.

    A task that is being proposed for is left out: its next batch should know the one before. So is a task with a
    round for each of the ``slots`` devices and one more, which keeps them busy: a batch proposed still earlier would
    know less. The job's allocator chooses among the others; allocators visit every task once before anything else.
    """
    full = {task.id for task in job.tasks if task.proposing or task.in_flight > max(slots, 1)}
    free = [task for task in job.tasks if open_to_rounds(task) and task.id not in full]
    size = budget.round_size(job, warm=all(task.rounds for task in job.tasks if task.tunable))
    if not free or size < 1:
        return None
    choice = _allocate(job, full)
    if choice is None:
        return None
    task = next(task for task in job.tasks if task.id == choice.task)
    action = OpenRound(
        job=job.id, task=task.id, number=job.next_number, size=size, baseline=task.rounds == 0,
        reason={"reason": choice.reason, "scores": {str(key): _plain(score) for key, score in choice.scores.items()}},
    )
    return action, _with_open(job, task, size)


def _plain(score: float) -> float | None:
    """A score in JSON, which knows no infinity."""
    return float(score) if math.isfinite(score) else None


def _with_open(job: JobSnapshot, chosen: TaskSnapshot, size: int) -> JobSnapshot:
    opened = replace(chosen, in_flight=chosen.in_flight + 1, proposing=True, rounds=chosen.rounds + 1)
    tasks = tuple(opened if task.id == chosen.id else task for task in job.tasks)
    return replace(job, tasks=tasks, trials_in_flight=job.trials_in_flight + size, next_number=job.next_number + 1)


def _allocate(job: JobSnapshot, full: set[int]) -> Choice | None:
    views = [
        TaskView(
            id=task.id, weight=task.weight, flops=task.flops, family=task.family, untuned=task.untuned,
            history=task.history, trials=task.trials, exhausted=not open_to_rounds(task) or task.id in full,
        )
        for task in job.tasks
    ]
    allocator = make_allocator(job.allocator, job.seed)
    return allocator.choose(views, {task.id: task.in_flight for task in job.tasks if task.in_flight})
