"""Schedules without a measurement, for tasks that a job may not come to before its time ends. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from services.coordinator.scheduling import budget
from services.coordinator.scheduling.actions import OpenRound
from services.coordinator.scheduling.rounds import FIRST_CANDIDATES
from services.coordinator.scheduling.snapshot import JobSnapshot

ROUNDS_AT_ONCE = 2
"""Such rounds under way: searchers propose for devices at the same time."""
HURRY = 4.0
"""How many times what the answers take is left when they begin: they run beside measurements."""
REASON = "the static model's choice, unmeasured, in case the time ends before the task's first round"


def with_answers(job: JobSnapshot) -> tuple[list[OpenRound], JobSnapshot]:
    """Rounds of no candidates that give tasks without a schedule one, and the job as it stands once these are open."""
    left = budget.seconds_for_answers(job)
    if not job.rounds or left is None or left <= 0:  # the first round times the default schedules
        return [], job
    if not short_of_time(job) and not budget.out_of_time(job):
        return [], job
    opened = list(_open(job, left))
    chosen = {action.task for action in opened}
    tasks = tuple(replace(task, answering=True) if task.id in chosen else task for task in job.tasks)
    return opened, replace(job, tasks=tasks, next_number=job.next_number + len(opened))


def short_of_time(job: JobSnapshot) -> bool:
    """True once the answers have to begin."""
    left = budget.seconds_left(job)
    return left is not None and HURRY * budget.answer_seconds(job) >= left


def under_way(job: JobSnapshot) -> bool:
    """True while a task lacks a schedule, or is being given one, and there is time for it."""
    left = budget.seconds_for_answers(job)
    if left is None or left <= 0 or not job.rounds:
        return False
    return bool(job.unanswered) or any(task.answering for task in job.tasks)


def _open(job: JobSnapshot, left: float) -> Iterator[OpenRound]:
    """First for the heaviest of the tasks that the job will hardly come to; it measures those before them."""
    waiting = sorted(job.unanswered, key=lambda task: (-task.weight * task.flops, task.id))
    free = max(0, ROUNDS_AT_ONCE - sum(task.answering for task in job.tasks))
    measured = 0 if budget.out_of_time(job) else int(left * budget.pace(job) / FIRST_CANDIDATES)
    start = max(0, min(measured, len(waiting) - free))
    for number, task in enumerate(waiting[start : start + free], job.next_number):
        yield OpenRound(job.id, task.id, number, 0, False, {"reason": REASON})
