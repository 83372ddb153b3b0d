"""Which task of a job gets the next round. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from types import MappingProxyType

from services.coordinator.scheduling.actions import OpenRound
from services.coordinator.scheduling.rounds import NextRound, labels_wanted, round_size, trial_limited
from services.coordinator.scheduling.snapshot import JobSnapshot, TaskSnapshot
from tunesmith.allocate.base import Allocator, Choice, TaskView
from tunesmith.allocate.registry import make_allocator
from tunesmith.proposals import places_for_proposals

FIRST_ROUNDS = 2
"""Finished rounds after which a task may lose against the other one of its pair."""
MAX_LATENCY_RATIO = 1.3
"""How much slower a task may be by then and still go on."""
LAST_ROUNDS = 4
"""Finished rounds of both after which only the faster of a pair goes on."""

STORED_SCORES = 256
"""Largest scores of a decision that are stored. A job with thousands of tasks would otherwise make large rows."""


def open_tasks(job: JobSnapshot) -> Iterator[TaskSnapshot]:
    """The tasks that may get another round, now or later."""
    if job.collecting is not None:
        return (task for task in job.tasks if task.lacks(job.collecting))
    lost = dominated(job)
    return (task for task in job.tasks if _open(task, lost))


def _open(task: TaskSnapshot, lost: Collection[int]) -> bool:
    return task.tunable and (task.proposed > 0 or _searched(task, lost))


def _searched(task: TaskSnapshot, lost: Collection[int]) -> bool:
    """Whether the task's own searcher goes on; what is proposed from outside may keep another one open."""
    return not task.exhausted and task.id not in lost


def dominated(job: JobSnapshot) -> set[int]:
    """Tasks that get no more rounds because the other one of their pair, the direct task or its alternative, wins.

    The model runs the faster of the two, so a round of the slower one gains nothing unless it overtakes. An allocator,
    which sees tasks one by one, would take every improvement of it for a gain. Early rounds improve a task most, and
    may put it ahead: so each has ``FIRST_ROUNDS`` like any other task. Then the one that is ``MAX_LATENCY_RATIO`` times
    slower stops, and after ``LAST_ROUNDS`` of both whichever is slower, by when a round improves either by a few
    per cent at most. What is left over goes to the rest of the model. A task with nothing left to propose has had its
    rounds.
    """
    if not job.alternatives:
        return set()
    known: dict[int | None, TaskSnapshot] = {task.id: task for task in job.tasks}
    pairs = [(task, known[task.alternative_of]) for task in job.alternatives if task.alternative_of in known]
    return {slow.id for a, b in pairs for slow, fast in ((a, b), (b, a)) if _dominated(slow, fast)}


def _behind_alternatives(job: JobSnapshot) -> set[int | None]:
    """Direct tasks that let their alternatives go first: these are offered where they do less work, and mostly win."""
    promised = {task.id for task in job.tasks if task.promised}
    fresh = {task.alternative_of for task in job.alternatives if task.tunable and not task.exhausted and task.fresh}
    return fresh - promised


def _dominated(slow: TaskSnapshot, fast: TaskSnapshot) -> bool:
    rounds = min(_rounds(task) for task in (slow, fast))
    mine, other = (task.curve[-1] if task.curve else math.inf for task in (slow, fast))
    if rounds < FIRST_ROUNDS or math.isinf(other):
        return False
    return mine > other * (1.0 if rounds >= LAST_ROUNDS else MAX_LATENCY_RATIO)


def _rounds(task: TaskSnapshot) -> float:
    """Finished ones, an earlier job's early ones among them."""
    return math.inf if task.exhausted else len(task.history) + (FIRST_ROUNDS if task.known is not None else 0)


def next_round(
    job: JobSnapshot, slots: int, common: Mapping[tuple[str, str], int] = MappingProxyType({})
) -> tuple[OpenRound, JobSnapshot] | None:
    """The next round of ``job`` and the job as it stands once that is open; None when nothing may be opened."""
    return _next_tuned(job, slots, common) if job.collecting is None else _next_collected(job, slots)


def _next_collected(job: JobSnapshot, slots: int) -> tuple[OpenRound, JobSnapshot] | None:
    """The next round of a collecting job: of a task that lacks labels beyond those under way."""
    most = max(slots, 1) + 1
    wanted = {task.id: labels_wanted(job, task) for task in job.tasks if not task.proposing and task.in_flight < most}
    free = {task for task, size in wanted.items() if size}
    choice = _allocate(make_allocator(job.options.allocator, job.options.seed), job, free, {}) if free else None
    return None if choice is None else _opened(job, choice, wanted[choice.task], baseline=False)


def _next_tuned(
    job: JobSnapshot, slots: int, common: Mapping[tuple[str, str], int] = MappingProxyType({})
) -> tuple[OpenRound, JobSnapshot] | None:
    """The next round of a job that tunes.

    A task that is being proposed for is left out: its next batch should know the one before. So is a task with a
    round for each of the ``slots`` devices and one more, which keeps them busy: a batch proposed still earlier would
    know less, and where trials are few not even that one is opened; and so is one that is given a schedule without a
    measurement, one that has such a schedule while other tasks have none, and one that its alternative, or its direct
    task, dominates, and a direct task whose alternative is still to have its first round. The job's allocator chooses
    among the others, except in rounds that are for what was proposed from outside, see :func:`_proposals_turn`.

    Args:
        slots: devices that the job could use.
        common: rounds under way by what jobs tune in common, this job's among them.
    """
    most = max(slots, 1) + (0 if trial_limited(job) else 1)
    waiting = _behind_alternatives(job)
    lost = dominated(job)
    free = [
        task
        for task in job.tasks
        if _open(task, lost) and not task.proposing and task.in_flight < most and task.id not in waiting
    ]
    free = [task for task in free if not task.answering]
    if any(task.fresh and task.promised for task in free):  # the whole model is soon measured once
        free = [task for task in free if not task.fresh or task.promised]
    elif any(task.fresh and not task.answered for task in free):  # those have no schedule at all
        free = [task for task in free if not (task.fresh and task.answered)]
    searched = {task.id for task in free if _searched(task, lost)}
    allocator = make_allocator(job.options.allocator, job.options.seed)
    choice = _proposals_turn(job, free, bool(searched))
    if choice is None and searched:
        choice = _allocate(allocator, job, searched, common)
    if choice is None:
        return None
    task = next(task for task in job.tasks if task.id == choice.task)
    unseen = sum(1 for other in job.tasks if other.tunable and other.fresh) if task.fresh else 0
    tuned = any(other.alternative_of == task.id and other.best is not None for other in job.alternatives)
    second = len(task.history) + task.in_flight == 1
    size = round_size(job, NextRound(task.fresh, second, unseen, tuned, allocator.small_first_rounds, task.promised))
    return _opened(job, choice, size, baseline=task.rounds == 0) if size > 0 else None


def _proposals_turn(job: JobSnapshot, free: Collection[TaskSnapshot], searched: bool) -> Choice | None:
    """The task with most waiting proposals, in rounds that are theirs; None where the allocator is to choose.

    The part ``proposal_share`` of all rounds is theirs, evenly spread. Where no searcher goes on every round is.
    """
    waiting = [task for task in free if task.proposed]
    if not waiting:
        return None
    share, number = job.options.proposal_share, job.next_number
    if searched and math.floor(number * share) == math.floor((number - 1) * share):
        return None
    task = max(waiting, key=lambda task: (task.proposed, -task.id))
    return Choice(task.id, {}, f"{task.proposed} proposed candidates wait for a measurement")


def _opened(job: JobSnapshot, choice: Choice, size: int, *, baseline: bool) -> tuple[OpenRound, JobSnapshot]:
    task = next(task for task in job.tasks if task.id == choice.task)
    best = sorted(choice.scores.items(), key=itemgetter(1), reverse=True)[:STORED_SCORES]
    scores = {str(key): _plain(score) for key, score in best}
    deviations = {str(key): _plain(choice.deviations[key]) for key, _ in best if key in choice.deviations}
    action = OpenRound(
        job=job.id,
        task=task.id,
        number=job.next_number,
        size=size,
        baseline=baseline,
        reason={"reason": choice.reason, "scores": scores, "gain": choice.gain, "deviations": deviations},
    )
    return action, _with_open(job, task, size)


def _plain(score: float) -> float | None:
    """A score in JSON, which knows no infinity."""
    return float(score) if math.isfinite(score) else None


def _with_open(job: JobSnapshot, chosen: TaskSnapshot, size: int) -> JobSnapshot:
    opened = replace(
        chosen,
        in_flight=chosen.in_flight + 1,
        proposing=True,
        rounds=chosen.rounds + 1,
        trials_in_flight=chosen.trials_in_flight + size,
        proposed=max(0, chosen.proposed - places_for_proposals(job.options.proposal_share, size)),
    )
    tasks = tuple(opened if task.id == chosen.id else task for task in job.tasks)
    return replace(job, tasks=tasks, trials_in_flight=job.trials_in_flight + size, next_number=job.next_number + 1)


def _allocate(
    allocator: Allocator, job: JobSnapshot, free: set[int], common: Mapping[tuple[str, str], int]
) -> Choice | None:
    under_way = {
        task.id: rounds
        for task in job.tasks
        if (rounds := common.get(task.shared, task.in_flight) if task.shared else task.in_flight)
    }
    return allocator.choose(views(job, free), under_way)


def views(job: JobSnapshot, free: Collection[int]) -> list[TaskView]:
    """The tasks as allocators see them; those that are not ``free`` to have a round count as exhausted. In a collecting
    job a task's labels count as its trials."""
    if job.collecting is not None:
        return [task.view(task.id in free)._replace(trials=task.labels) for task in job.tasks]
    return [task.view(task.id in free) for task in job.tasks]
